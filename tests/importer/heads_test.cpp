// Heads of SPLADE, ColBERT and BGE-M3, by gpux's own import: against sentence-transformers
// (scripts/references/head-references).
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "embedding/embedder.h"
#include "gpux/error.h"
#include "importer/import_model.h"
#include "runtime/cpu_runtime.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

using embedding::Embedding;
using embedding::Representation;
using embedding::TextRole;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using Json = nlohmann::json;

constexpr float near_enough = 1e-4F;

fs::path reference(const std::string& name) {
  return fs::path(GPUX_SOURCE_DIR) / "tests/importer/heads" / name;
}

/// A copy of the reference's folder, with the tokenizer.
fs::path write_folder(const test::TemporaryFolder& folder, const std::string& name) {
  for (const auto& entry : fs::recursive_directory_iterator(reference(name))) {
    if (!entry.is_regular_file()) continue;
    folder.write((name / entry.path().lexically_relative(reference(name))).string(), read_file(entry.path()));
  }
  folder.write(name + "/tokenizer.json", read_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json"));
  return folder.path() / name;
}

embedding::TextEmbedder imported(const fs::path& folder) {
  const fs::path made = folder.string() + "-onnx";
  fs::remove_all(made);
  (void)import_model(folder, made);
  const checkpoint::SentenceModel model = checkpoint::read_sentence_model(made);
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = 1;
  return {model, Runtime(model.onnx_file, options)};
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was refused"};
}

class Heads : public CpuRuntime {
 protected:
  const test::TemporaryFolder folder_;
};

TEST_F(Heads, OfSpladeAgreeWithSentenceTransformers) {
  for (const char* name : {"splade-bert", "splade-distilbert", "splade-xlm-roberta", "splade-modernbert"}) {
    const embedding::TextEmbedder embedder = imported(write_folder(folder_, name));
    EXPECT_EQ(embedder.runtime().info().signature.outputs.front().name, "sparse_embedding");
    for (const Json& answer : Json::parse(read_file(reference(name) / "answers.json"))) {
      SCOPED_TRACE(std::string(name) + ": " + answer.at("text").get<std::string>());
      const Embedding met = embedder.represent(answer.at("text").get<std::string>(), {.sparse = {.threshold = 1e-5F}});
      EXPECT_EQ(met.indices, answer.at("indices").get<std::vector<std::uint32_t>>());
      EXPECT_THAT(met.values, Pointwise(FloatNear(near_enough), answer.at("values").get<std::vector<float>>()));
    }
  }
}

TEST_F(Heads, OfColbertAgreeWithSentenceTransformers) {
  const embedding::TextEmbedder embedder = imported(write_folder(folder_, "colbert-bert"));
  EXPECT_EQ(embedder.runtime().info().signature.outputs.front().name, "token_embeddings");
  EXPECT_EQ(embedder.encoder().dimension(), 4U);
  for (const Json& answer : Json::parse(read_file(reference("colbert-bert") / "answers.json"))) {
    const auto text = answer.at("text").get<std::string>();
    SCOPED_TRACE(text);
    EXPECT_THAT(embedder.represent(text).values,
                Pointwise(FloatNear(near_enough), answer.at("document").get<std::vector<float>>()));
    EXPECT_THAT(embedder.represent(text, {.role = TextRole::query}).values,
                Pointwise(FloatNear(near_enough), answer.at("query").get<std::vector<float>>()));
  }
}

// The encoder of a reference with layers of weights that tell themselves apart.
TEST_F(Heads, OfBgeM3InPicklesAreReportedAsUnread) {
  const fs::path model = write_folder(folder_, "colbert-bert");
  for (const char* file : {"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"}) {
    fs::remove(model / file);
  }
  EXPECT_TRUE(import_model(model, folder_.path() / "without").left_out.empty());
  folder_.write("colbert-bert/sparse_linear.pt", "pickle");
  EXPECT_THAT(import_model(model, folder_.path() / "with").left_out,
              testing::ElementsAre(testing::AllOf(HasSubstr("sparse_linear.pt is a pickle"),
                                                  HasSubstr("the model has no sparse vectors"))));
}

TEST_F(Heads, OfBgeM3AreReadFromSafetensorsBesideTheModel) {
  const fs::path model = write_folder(folder_, "colbert-bert");
  for (const char* file : {"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"}) {
    fs::remove(model / file);
  }
  const auto layer = [&](const std::string& name, std::int64_t out, float bias) {
    std::string header = Json{{"weight", {{"dtype", "F32"}, {"shape", {out, 8}}, {"data_offsets", {0, out * 32}}}},
                              {"bias", {{"dtype", "F32"}, {"shape", {out}}, {"data_offsets", {out * 32, out * 36}}}}}
                             .dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::vector<float> numbers(static_cast<std::size_t>(out * 9), 0.0F);
    for (std::int64_t i = 0; i < out; ++i) {
      numbers[static_cast<std::size_t>(i * 8 + i)] = 1;  // element i of the hidden state
      numbers[static_cast<std::size_t>(out * 8 + i)] = bias;
    }
    const std::uint64_t length = header.size();
    std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
    file += header;
    file.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    folder_.write("colbert-bert/" + name + ".safetensors", file);
  };
  layer("sparse_linear", 1, 0.5F);
  layer("colbert_linear", 2, 0);
  const embedding::TextEmbedder embedder = imported(model);
  EXPECT_TRUE(embedder.encoder().represents(Representation::dense));
  const std::string text = "the model runs";
  const auto prepared = embedder.encoder().prepare(text, {});
  const NamedValues outputs = embedder.runtime().infer(prepared.inputs, {.outputs = {"last_hidden_state"}});
  const std::span<const float> hidden = outputs.front().second.tensor()->as<float>();
  const Embedding sparse = embedder.represent(text, {.representation = Representation::sparse});
  for (std::size_t i = 0; i < sparse.indices.size(); ++i) {
    const auto at = std::ranges::find(prepared.ids, sparse.indices[i]) - prepared.ids.begin();
    EXPECT_NEAR(sparse.values[i], hidden[static_cast<std::size_t>(at) * 8] + 0.5F, near_enough);
  }
  EXPECT_FALSE(sparse.indices.empty());
  const Embedding tokens = embedder.represent(text, {.representation = Representation::multi_vector});
  ASSERT_EQ(tokens.rows, prepared.ids.size() - 1);
  for (std::size_t i = 0; i < tokens.rows; ++i) {
    const float x = hidden[(i + 1) * 8], y = hidden[(i + 1) * 8 + 1];
    EXPECT_NEAR(tokens.values[i * 2], x / std::hypot(x, y), near_enough);
  }
  layer("sparse_linear", 2, 0);
  EXPECT_THAT(error_of([&] { (void)imported(model); }).message(), HasSubstr("2 weights per token"));
}

TEST_F(Heads, ThatAreNotThereAreRefusedByName) {
  const fs::path model = write_folder(folder_, "splade-bert");
  fs::copy_file(reference("colbert-bert") / "model.safetensors", model / "model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { (void)imported(model); }).message(), HasSubstr("head of a masked language model"));
  const fs::path colbert = write_folder(folder_, "colbert-bert");
  folder_.write("colbert-bert/modules.json", R"([{"type": "a.Transformer", "path": ""}])");
  EXPECT_THAT(error_of([&] { (void)imported(colbert); }).message(), HasSubstr("linear.weight"));
  folder_.write("colbert-bert/config_sentence_transformers.json", "{}");
  folder_.write("colbert-bert/modules.json",
                R"([{"type": "a.Transformer", "path": ""}, {"type": "a.LogitScore", "path": "1_LogitScore"}])");
  EXPECT_THAT(error_of([&] { (void)imported(colbert); }).message(), HasSubstr("LogitScore"));
}

}  // namespace
}  // namespace gpux::importer
