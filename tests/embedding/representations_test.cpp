// Sparse vectors and token vectors, of models as they are exported and of settings as people get them.
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "embedding/embed_all.h"
#include "embedding/embedder.h"
#include "embedding/max_sim.h"
#include "embedding/representation_file.h"
#include "embedding/representation_folder.h"
#include "embedding/sparse_vector.h"
#include "gpux/error.h"
#include "runtime/cpu_runtime.h"

namespace gpux::embedding {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

using Json = nlohmann::json;

constexpr float near_enough = 2e-5F;

Json answers() {
  return Json::parse(read_file(test::representation_data("answers.json")));
}

TextEmbedder embedder_of(const std::filesystem::path& folder, TextBatching batching = TextBatching::exact) {
  const checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder);
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = 1;
  return {model, Runtime(model.onnx_file, options), batching};
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was refused"};
}

void expect_sparse(const Embedding& met, const Json& expected) {
  EXPECT_EQ(met.indices, expected.at("indices").get<std::vector<std::uint32_t>>());
  EXPECT_THAT(met.values, Pointwise(FloatNear(near_enough), expected.at("values").get<std::vector<float>>()));
}

class Representations : public CpuRuntime {
 protected:
  const test::TemporaryFolder folder_;
};

TEST_F(Representations, OneRunGivesBothVectorsOfAText) {
  const TextEmbedder embedder = embedder_of(test::write_representation_folder(folder_, "bge_m3"));
  const EmbedOptions both{.representation = Representation::dense, .with_sparse = true};
  EXPECT_EQ(embedder.encoder().outputs(both).size(), 2U);
  std::vector<Embedding> made;
  std::vector<std::string> texts;
  for (const Json& answer : answers()) texts.push_back(answer.at("text"));
  std::size_t next = 0;
  const TextSource source = [&](std::string& text) {
    if (next == texts.size()) return false;
    text = texts[next++];
    return true;
  };
  const EmbeddingSink keep = [&](std::string_view /*text*/, const Embedding& one) { made.push_back(one); };
  EXPECT_EQ(embed_all(embedder, both, source, 2, keep), texts.size());
  std::size_t weights = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(made[i].values, embedder.embed(texts[i]));
    const Embedding sparse = embedder.represent(texts[i], {.representation = Representation::sparse});
    weights += sparse.indices.size();
    EXPECT_EQ(made[i].sparse, (SparseWeights{.values = sparse.values, .indices = sparse.indices}));
  }
  EXPECT_GT(weights, 0U);
  const TextEmbedder splade = embedder_of(test::write_splade_folder(folder_, "logits", "{}"));
  for (const auto& [refusing, representation] :
       {std::pair(&splade, Representation::dense), std::pair(&embedder, Representation::sparse)}) {
    const EmbedOptions options{.representation = representation, .with_sparse = true};
    EXPECT_EQ(error_of([&] { refusing->encoder().check(options); }).code(), ErrorCode::usage);
  }
}

TEST_F(Representations, SpladeIsPooledHereAsSentenceTransformersDefinesIt) {
  const std::vector<std::pair<std::string, std::string>> poolings{
      {"max", R"({"pooling_strategy": "max", "activation_function": "relu"})"},
      {"sum", R"({"pooling_strategy": "sum"})"},
      {"twice", R"({"activation_function": "log1p_relu"})"}};
  for (const auto& [name, pooling] : poolings) {
    const TextEmbedder embedder = embedder_of(test::write_splade_folder(folder_, "logits", pooling));
    EXPECT_EQ(embedder.encoder().default_representation(), Representation::sparse);
    EXPECT_EQ(embedder.encoder().dimension(), 1500U);
    for (const Json& answer : answers()) {
      SCOPED_TRACE(name + ": " + answer.at("text").get<std::string>());
      expect_sparse(embedder.represent(answer.at("text").get<std::string>()), answer.at(name));
    }
  }
}

// Tokenizers may have more tokens than the model has rows: the model's library fails where a text has one of them.
TEST_F(Representations, RefuseTextsWithATokenThatTheModelHasNoEmbeddingFor) {
  const std::string added = R"({"added_tokens_decoder": {"1500": {"content": "[QUERY]", "special": true}}})";
  const auto open = [&](const std::filesystem::path& folder) {
    const std::string name = folder.filename().string();
    folder_.write(name + "/config.json", R"({"vocab_size": 1500})");
    folder_.write(name + "/tokenizer_config.json", added);
    return embedder_of(folder);
  };
  const TextEmbedder sparse = open(test::write_splade_folder(folder_, "logits", R"({"pooling_strategy": "max"})"));
  const TextEmbedder graph = open(test::write_splade_folder(folder_, "splade", "{}"));
  const TextEmbedder tokens = open(test::write_colbert_folder(folder_));
  for (const TextEmbedder* embedder : {&sparse, &graph, &tokens}) {
    const Error error = error_of([&] { (void)embedder->represent("a [QUERY] b"); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_EQ(error.message(),
              "the text has the token 1500 '[QUERY]'; accepted: 0 to 1499, the tokens that the model has embeddings "
              "for");
    EXPECT_NO_THROW((void)embedder->represent("a query b"));
  }
  for (const Json& answer : answers()) {
    expect_sparse(sparse.represent(answer.at("text").get<std::string>()), answer.at("max"));
    expect_sparse(graph.represent(answer.at("text").get<std::string>()), answer.at("max"));
  }
}

TEST_F(Representations, SpladeInTheGraphIsTakenAsItIs) {
  const TextEmbedder embedder = embedder_of(test::write_splade_folder(folder_, "splade", "{}"));
  for (const Json& answer : answers()) {
    expect_sparse(embedder.represent(answer.at("text").get<std::string>()), answer.at("max"));
  }
}

TEST_F(Representations, AMaskedLanguageModelWithoutModulesIsSparse) {
  const auto model = test::write_representation_folder(folder_, "logits", R"({"architectures": ["BertForMaskedLM"]})");
  EXPECT_TRUE(embedder_of(model).encoder().represents(Representation::sparse));
  EXPECT_THAT(error_of([&] { (void)embedder_of(test::write_representation_folder(folder_, "logits")); }).message(),
              HasSubstr("no output holds vectors of texts"));
}

TEST_F(Representations, BgeM3HasAllThree) {
  const TextEmbedder embedder = embedder_of(test::write_representation_folder(folder_, "bge_m3"));
  EXPECT_EQ(embedder.encoder().default_representation(), Representation::dense);
  EXPECT_EQ(embedder.encoder().dimension({.representation = Representation::multi_vector}), 6U);
  for (const Json& answer : answers()) {
    const auto text = answer.at("text").get<std::string>();
    SCOPED_TRACE(text);
    EXPECT_THAT(embedder.embed(text), Pointwise(FloatNear(near_enough), answer.at("dense").get<std::vector<float>>()));
    expect_sparse(embedder.represent(text, {.representation = Representation::sparse}), answer.at("lexical"));
    const Embedding tokens = embedder.represent(text, {.representation = Representation::multi_vector});
    EXPECT_THAT(tokens.values, Pointwise(FloatNear(near_enough), answer.at("tokens").get<std::vector<float>>()));
    EXPECT_EQ(tokens.values.size(), tokens.rows * 6);
  }
}

TEST_F(Representations, ColbertMarksExpandsAndSkipsAsPyLate) {
  const TextEmbedder embedder = embedder_of(test::write_colbert_folder(folder_));
  EXPECT_EQ(embedder.encoder().default_representation(), Representation::multi_vector);
  EXPECT_EQ(embedder.encoder().dimension(), 6U);
  const Json all = answers();
  std::vector<Embedding> documents;
  for (const Json& answer : all) {
    documents.push_back(embedder.represent(answer.at("text").get<std::string>()));
    EXPECT_THAT(documents.back().values,
                Pointwise(FloatNear(near_enough), answer.at("document").get<std::vector<float>>()));
  }
  for (const Json& answer : all) {
    const Embedding query = embedder.represent(answer.at("text").get<std::string>(), {.role = TextRole::query});
    EXPECT_EQ(query.rows, 12U);
    EXPECT_THAT(query.values, Pointwise(FloatNear(near_enough), answer.at("query").get<std::vector<float>>()));
    for (std::size_t i = 0; i < documents.size(); ++i) {
      EXPECT_NEAR(max_sim(query, documents[i]), answer.at("max_sim").at(i).get<float>(), 1e-4F);
      EXPECT_NEAR(max_sim(query, documents[i], true), answer.at("max_sim").at(i).get<float>() / 12, 1e-5F);
    }
  }
}

TEST_F(Representations, ColbertOfStanfordIsReadFromItsMetadata) {
  const auto model = test::write_representation_folder(folder_, "hidden", R"({"architectures": ["HF_ColBERT"]})");
  folder_.write("hidden/artifact.metadata", R"({"query_token_id": "#", "doc_token_id": "$", "doc_maxlen": 20,)"
                                            R"("query_maxlen": 9, "mask_punctuation": false, "similarity": "cosine"})");
  const TextEmbedder embedder = embedder_of(model);
  // Without the projection, which import puts into the graph.
  EXPECT_EQ(embedder.encoder().dimension(), 8U);
  EXPECT_EQ(embedder.represent("a", {.role = TextRole::query}).rows, 9U);
  // [CLS] $ a . [SEP]: nothing is skipped.
  EXPECT_EQ(embedder.represent("a.").rows, 5U);
}

TEST_F(Representations, HaveTheSameBitsInEveryBatch) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back("text number " + std::to_string(i) + (i % 3 == 0 ? " and more" : ""));
  const auto check = [&](const TextEmbedder& embedder, const EmbedOptions& options) {
    std::size_t next = 0, done = 0;
    const TextSource source = [&](std::string& text) {
      if (next == texts.size()) return false;
      text = texts[next++];
      return true;
    };
    const EmbeddingSink sink = [&](std::string_view text, const Embedding& embedding) {
      EXPECT_EQ(embedding, embedder.represent(text, options)) << text;
      ++done;
    };
    (void)embed_all(embedder, options, source, 2, sink);
    EXPECT_EQ(done, texts.size());
  };
  check(embedder_of(test::write_splade_folder(folder_, "splade", "{}")), {});
  check(embedder_of(test::write_representation_folder(folder_, "bge_m3")), {.representation = Representation::sparse});
  check(embedder_of(test::write_representation_folder(folder_, "bge_m3")),
        {.representation = Representation::multi_vector});
  check(embedder_of(test::write_colbert_folder(folder_)), {.role = TextRole::query});
}

TEST_F(Representations, ThatTheModelDoesNotMakeAreRefusedByName) {
  const TextEmbedder colbert = embedder_of(test::write_colbert_folder(folder_));
  const Error sparse = error_of([&] { colbert.encoder().check({.representation = Representation::sparse}); });
  EXPECT_EQ(sparse.code(), ErrorCode::usage);
  EXPECT_THAT(sparse.message(), HasSubstr("makes multi-vector embeddings"));
  EXPECT_THAT(sparse.message(), HasSubstr("last_hidden_state"));
  const TextEmbedder splade = embedder_of(test::write_splade_folder(folder_, "splade", "{}"));
  EXPECT_THAT(error_of([&] { splade.encoder().check({.representation = Representation::dense}); }).message(),
              HasSubstr("makes sparse embeddings"));
  EXPECT_EQ(error_of([&] { splade.encoder().check({.dimensions = 7}); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { splade.encoder().check({.normalize = true}); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { colbert.encoder().check({.sparse = {.top_k = 3}}); }).code(), ErrorCode::usage);
  EXPECT_NO_THROW(splade.encoder().check({.sparse = {.top_k = 3}}));
}

TEST_F(Representations, SettingsThatAreNotSupportedAreRefusedByName) {
  EXPECT_THAT(error_of([&] {
                (void)embedder_of(test::write_splade_folder(folder_, "splade", R"({"pooling_strategy": "mean"})"));
              }).message(),
              HasSubstr("pooling_strategy"));
  const auto model = test::write_colbert_folder(folder_);
  folder_.write("hidden/modules.json", R"([{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": ""}])");
  EXPECT_THAT(error_of([&] { (void)embedder_of(model); }).message(), HasSubstr("'Pooling'"));
  folder_.write("hidden/config_sentence_transformers.json",
                R"({"model_type": "MultiVectorEncoder", "query_expansion": {"strategy": "most", "length": 3}})");
  EXPECT_THAT(error_of([&] { (void)embedder_of(model); }).message(), HasSubstr("query_expansion.strategy"));
}

TEST(SparseVectors, KeepTheLargestAndThoseAboveTheThreshold) {
  const std::vector<float> weights{0, 2, 0.5F, 2, 1};
  EXPECT_THAT(sparse_from_vocabulary(weights).indices, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sparse_from_vocabulary(weights, {.top_k = 2}).indices, ElementsAre(1, 3));
  EXPECT_THAT(sparse_from_vocabulary(weights, {.top_k = 1}).indices, ElementsAre(1));
  EXPECT_THAT(sparse_from_vocabulary(weights, {.threshold = 0.5F}).indices, ElementsAre(1, 3, 4));
  const std::vector<std::uint32_t> ids{9, 4, 9, 1}, left_out{1};
  const Embedding tokens = sparse_from_tokens(std::vector<float>{1, 3, 2, 7}, ids, left_out);
  EXPECT_THAT(tokens.indices, ElementsAre(4, 9));
  EXPECT_THAT(tokens.values, ElementsAre(3, 2));
  EXPECT_EQ(sparse_product(sparse_from_vocabulary(weights), tokens), 3);
}

TEST(MaxSim, OfNoVectorsHasNoScore) {
  const Embedding query{.values = {1, 0}, .rows = 1}, none{.values = {}, .rows = 0};
  EXPECT_EQ(max_sim(none, query), 0);
  EXPECT_EQ(max_sim(query, none), -std::numeric_limits<float>::infinity());
  const Embedding wider{.values = {1, 0, 0}, .rows = 1};
  EXPECT_THROW((void)max_sim(query, wider), Error);
  const std::vector<Embedding> documents{none, {.values = {0, 1}, .rows = 1}, {.values = {0.5F, 0}, .rows = 1}};
  const auto matches = best_matches(documents, query, Representation::multi_vector, false, 5, 2);
  ASSERT_EQ(matches.size(), 2U);
  EXPECT_EQ(matches.front().index, 2U);
}

TEST(RepresentationFiles, AreReadAsTheyWereWritten) {
  const test::TemporaryFolder folder;
  const std::vector<Embedding> sparse{{.values = {0.1F, 2}, .indices = {3, 1499}}, {.values = {}, .indices = {}}};
  const std::vector<Embedding> tokens{{.values = {1, 0, 0.1F, 3}, .rows = 2}, {.values = {}, .rows = 0}};
  for (const std::string name : {"x.npz", "x.jsonl"}) {
    for (const Representation representation : {Representation::sparse, Representation::multi_vector}) {
      const bool is_sparse = representation == Representation::sparse;
      const std::string file = (folder.path() / name).string();
      RepresentationWriter writer(
          {.representation = representation, .output = file, .token_names = nullptr},
          {.model = "m", .level = "", .digest = "ab", .dimension = is_sparse ? 1500U : 2U, .run = {}}, nullptr);
      for (const Embedding& each : is_sparse ? sparse : tokens) writer.add(each);
      writer.finish();
      EXPECT_EQ(stored_representation(file), representation);
      const StoredEmbeddings read = read_stored_embeddings(file);
      EXPECT_EQ(read.embeddings, is_sparse ? sparse : tokens) << name;
      EXPECT_EQ(read.digest, "sha256:ab");
      EXPECT_EQ(read.dimension, is_sparse ? 1500U : 2U);
    }
  }
}

TEST(RepresentationFiles, ThatAreMalformedAreRefused) {
  const test::TemporaryFolder folder;
  const std::map<std::string, std::string> lines{
      {R"({"indices": [1, 2], "values": [1]})", "one length"},
      {R"({"indices": [1, 1], "values": [1, 2]})", "twice"},
      {R"({"indices": [-1], "values": [1]})", "-1"},
      {R"({"dimension": 3, "indices": [3], "values": [1]})", "0 to 2"},
  };
  for (const auto& [line, reason] : lines) {
    const std::string file = folder.write("x.jsonl", line + "\n");
    const Error error = error_of([&] { (void)read_stored_embeddings(file); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << line;
    EXPECT_THAT(error.message(), HasSubstr(reason));
  }
  EXPECT_EQ(error_of([&] { (void)read_stored_embeddings(folder.write("x.npz", "PK")); }).code(),
            ErrorCode::invalid_input);
  EXPECT_EQ(error_of([&] {
              (void)RepresentationWriter({.representation = Representation::sparse, .output = "x.npy"},
                                         {.model = "", .level = "", .digest = "", .dimension = 1, .run = {}}, nullptr);
            }).code(),
            ErrorCode::usage);
}

}  // namespace
}  // namespace gpux::embedding
