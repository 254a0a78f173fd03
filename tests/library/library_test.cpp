// The public classes above Runtime: what they give is what the modules below give, and mistakes are errors by name.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/own_program.h"
#include "checkpoint/sentence_model.h"
#include "embedding/embedder.h"
#include "embedding/encoder_folder.h"
#include "gpux/embedder.h"
#include "gpux/error.h"
#include "gpux/image_embedder.h"
#include "gpux/model.h"
#include "gpux/pipeline.h"
#include "gpux/search.h"
#include "gpux/store.h"
#include "gpux/zero_shot_images.h"
#include "importer/import_model.h"
#include "library/expect_error.h"
#include "pipeline/task_folder.h"

namespace gpux {
namespace {

using test::expect_error;
using testing::ElementsAre;
using testing::HasSubstr;

// gpux.yml without what says how scores are made.
std::string without_zero_shot(const std::string& yaml) {
  const std::size_t from = yaml.find("zero_shot:");
  std::size_t to = yaml.find('\n', from) + 1;
  while (to < yaml.size() && yaml[to] == ' ') to = yaml.find('\n', to) + 1;
  return yaml.substr(0, from) + yaml.substr(to);
}

class Library : public testing::Test {
 protected:
  Library() {
    home_ = folder_.path() / "home";
    ::setenv("GPUX_HOME", home_.c_str(), 1);
    encoder_ = test::write_encoder_folder(folder_, R"({"pooling_mode_mean_tokens": true})", true);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path home_, encoder_;
};

TEST_F(Library, EmbedderEqualsTextEmbedder) {
  const Embedder embedder(encoder_.string());
  const std::vector<std::string> texts{"the cat", "a dog sat", "the cat sat on the mat"};
  const Embeddings embeddings = embedder.embed(texts);
  ASSERT_EQ(embeddings.size(), texts.size());
  EXPECT_EQ(embeddings.dimension(), embedder.dimension());
  const embedding::TextEmbedder below(checkpoint::read_sentence_model(encoder_),
                                      Runtime(encoder_ / "onnx/model.onnx", {.provider = "cpu", .intra_threads = 1}));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_THAT(embedder.embed(texts[i]), testing::ElementsAreArray(below.embed(texts[i])));
    EXPECT_THAT(embeddings[i], testing::ElementsAreArray(below.embed(texts[i])));
  }
  EXPECT_EQ(embedder.verdict().active, std::vector<std::string>{"cpu"});
  EXPECT_EQ(embedder.digest().size(), 64U);
}

TEST_F(Library, EmbedsImagesInEachForm) {
  const std::filesystem::path tests = GPUX_SOURCE_DIR "/tests";
  const std::filesystem::path model = folder_.path() / "clip";
  (void)importer::import_model(tests / "importer/images/clip-vit-base-patch32", model);
  const ImageEmbedder embedder(model.string(), {.workers = 2});
  const Embedder texts(model.string());
  EXPECT_EQ(embedder.digest(), texts.digest());
  EXPECT_EQ(embedder.dimension(), texts.dimension());
  const std::filesystem::path file = tests / "image/pictures/png-rgb.png";
  Tensor black = Tensor::allocate(ElementType::uint8, {40, 50, 3});
  std::ranges::fill(black.mutable_as<std::uint8_t>(), std::uint8_t{0});
  const std::vector<ImageData> images{file, read_file(file), black, file};
  const Embeddings embeddings = embedder.embed(images);
  ASSERT_EQ(embeddings.size(), images.size());
  for (const std::size_t same : {1U, 3U}) {
    EXPECT_THAT(embeddings[same], testing::ElementsAreArray(embeddings[0].begin(), embeddings[0].end()));
  }
  for (std::size_t i = 0; i < images.size(); ++i) {
    EXPECT_THAT(embedder.embed(images[i]), testing::ElementsAreArray(embeddings[i].begin(), embeddings[i].end()));
  }
  EXPECT_EQ(embedder.embed(images, {.dimensions = 3}).dimension(), 3U);
  EXPECT_EQ(embedder.verdict().active, std::vector<std::string>{"cpu"});
  expect_error(ErrorCode::usage, "1 to the model's 12", [&] { (void)embedder.embed(images, {.dimensions = 13}); });
  const std::vector<ImageData> damaged{file, std::string("hello")};
  expect_error(ErrorCode::invalid_input, "image 1", [&] { (void)embedder.embed(damaged); });
  // The path of a file is no file's bytes.
  expect_error(ErrorCode::invalid_input, "image", [&] { (void)embedder.embed(file.string()); });
  expect_error(ErrorCode::not_found, "none.png", [&] { (void)embedder.embed(folder_.path() / "none.png"); });
  expect_error(ErrorCode::invalid_input, "uint8[height, width, 3]", [&] {
    (void)embedder.embed(Tensor::allocate(ElementType::uint8, {3, 40, 50}));
  });
  expect_error(ErrorCode::usage, "takes no images", [&] { const ImageEmbedder none(encoder_.string()); });
}

TEST_F(Library, EmbedsWithOptions) {
  const Embedder embedder(encoder_.string());
  EXPECT_EQ(embedder.prompts().size(), 2U);
  EXPECT_EQ(embedder.embed("cat", {.prompt_name = "query"}), embedder.embed("the question: cat"));
  EXPECT_EQ(embedder.embed("cat", {.prompt = "the question: "}), embedder.embed("the question: cat"));
  const std::vector<float> cut = embedder.embed("cat", {.dimensions = 2});
  EXPECT_EQ(cut.size(), 2U);
  const std::vector<std::string> texts{"cat", "dog"};
  EXPECT_EQ(embedder.embed(texts, {.dimensions = 2}).dimension(), 2U);
  expect_error(ErrorCode::usage, "there is no prompt 'other'",
               [&] { (void)embedder.embed("cat", {.prompt_name = "other"}); });
  expect_error(ErrorCode::usage, "use one of them",
               [&] { (void)embedder.embed("cat", {.prompt = "a: ", .prompt_name = "query"}); });
  expect_error(ErrorCode::usage, "dimensions", [&] { (void)embedder.embed("cat", {.dimensions = 1 << 20}); });
  expect_error(ErrorCode::invalid_input, "text 2", [&] {
    const std::vector<std::string> wrong{"cat", "caf\xe9"};
    (void)embedder.embed(wrong);
  });
  expect_error(ErrorCode::usage, "nonsense", [&] { Embedder(encoder_.string(), {.model = {.provider = "nonsense"}}); });
  expect_error(ErrorCode::not_found, "nowhere", [] { Embedder("nowhere"); });
}

TEST_F(Library, EmbedsAsManyTextsAsASourceHas) {
  const Embedder embedder(encoder_.string(), {.workers = 3});
  int left = 100;
  std::vector<std::string> seen;
  const std::uint64_t count = embedder.embed(
      [&](std::string& text) {
        text = "cat " + std::to_string(left);
        return left-- > 0;
      },
      [&](std::string_view text, std::span<const float> embedding) {
        seen.emplace_back(text);
        EXPECT_EQ(embedding.size(), embedder.dimension());
      });
  EXPECT_EQ(count, 100U);
  ASSERT_EQ(seen.size(), 100U);
  EXPECT_EQ(seen.front(), "cat 100");
  EXPECT_EQ(seen.back(), "cat 1");
}

TEST_F(Library, FindsTheNearestVectors) {
  SearchIndex index;
  EXPECT_TRUE(index.search(std::vector<float>{1, 0}).empty());
  index.add(std::vector<float>{1, 0}, "east");
  index.add(std::vector<float>{0, 2}, "north", "n");
  index.add(std::vector<float>{1, 1}, "between");
  const std::vector<SearchHit> hits = index.search(std::vector<float>{0, 1}, 2);
  ASSERT_EQ(hits.size(), 2U);
  EXPECT_EQ(hits[0].text, "north");
  EXPECT_EQ(hits[0].id, "n");
  EXPECT_EQ(hits[0].index, 1U);
  EXPECT_FLOAT_EQ(hits[0].score, 1);
  EXPECT_EQ(hits[1].text, "between");
  expect_error(ErrorCode::invalid_input, "3 dimensions", [&] { index.add(std::vector<float>{1, 2, 3}); });
  expect_error(ErrorCode::invalid_input, "3 dimensions", [&] { (void)index.search(std::vector<float>{1, 2, 3}); });
}

TEST_F(Library, SearchesStoredVectorsOfTheSameModelAlone) {
  const Embedder embedder(encoder_.string());
  const std::string line =
      R"({"text": "a cat", "model": "encoder", "digest": "sha256:)" + embedder.digest() + R"(", "vector": [)";
  std::string numbers;
  for (const float number : embedder.embed("a cat")) numbers += (numbers.empty() ? "" : ",") + std::to_string(number);
  folder_.write("vectors.jsonl", line + numbers + "]}\n");
  SearchIndex index = SearchIndex::open(folder_.path() / "vectors.jsonl");
  EXPECT_EQ(index.size(), 1U);
  EXPECT_EQ(index.search(embedder, "a cat").front().text, "a cat");
  index.add(embedder.embed("a dog"), "a dog");
  EXPECT_EQ(index.search(embedder, "a dog").front().text, "a dog");
  std::string other = line;
  other.replace(other.find("sha256:") + 7, 4, "0000");
  folder_.write("other.jsonl", other + numbers + "]}\n");
  expect_error(ErrorCode::invalid_input, "made by model 'encoder'",
               [&] { (void)SearchIndex::open(folder_.path() / "other.jsonl").search(embedder, "a cat"); });
}

TEST_F(Library, SearchesByTheSimilarityOfTheModel) {
  SearchIndex index;
  for (const std::vector<float>& vector : {std::vector<float>{1, 0}, {8, 8}, {2, 0}}) index.add(vector);
  const std::vector<float> query{2, 0};
  const auto best = [&](Similarity similarity) { return index.search(query, 1, 0, similarity).front(); };
  EXPECT_EQ(best(Similarity::cosine).index, 0U);
  EXPECT_EQ(best(Similarity::dot).index, 1U);
  EXPECT_EQ(best(Similarity::dot).score, 16);
  EXPECT_EQ(best(Similarity::euclidean).index, 2U);
  EXPECT_EQ(best(Similarity::manhattan).score, 0);

  EXPECT_EQ(Embedder(encoder_.string()).similarity(), Similarity::cosine);
  folder_.write("encoder/config_sentence_transformers.json", R"({"similarity_fn_name": "euclidean"})");
  const Embedder embedder(encoder_.string());
  EXPECT_EQ(embedder.similarity(), Similarity::euclidean);
  SearchIndex texts;
  texts.add(embedder.embed("a dog"));
  texts.add(embedder.embed("a cat"));
  const std::vector<SearchHit> hits = texts.search(embedder, "a cat");
  EXPECT_EQ(hits[0].index, 1U);
  EXPECT_EQ(hits[0].score, 0) << "a distance";
  EXPECT_LT(hits[1].score, 0);
}

TEST_F(Library, ClassifiesByLabelsOfTheCaller) {
  const std::filesystem::path made = test::import_task_folder(folder_, "classify-bert");
  const Pipeline other(made.string());
  expect_error(ErrorCode::usage, "does not classify by them", [&] { (void)other.zero_shot("a", {.labels = {"b"}}); });
  auto config = nlohmann::json::parse(read_file(made / "config.json"));
  config["id2label"] = {{"0", "ENTAILMENT"}, {"1", "neutral"}, {"2", "contradiction"}};
  write_file_atomically(made / "config.json", config.dump());
  const Pipeline pipeline(made.string());
  const ZeroShotOptions options{.labels = {"dog", "cat"}, .hypothesis_template = "the {} sat"};
  const std::vector<LabelScore> scores = pipeline.zero_shot("a cat", options);
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_GE(scores[0].score, scores[1].score);
  EXPECT_NEAR(scores[0].score + scores[1].score, 1, 1e-6);
  // By hand: the entailment of each pair.
  std::vector<double> entailed;
  for (const LabelScore& one : scores) {
    const auto outputs = pipeline.model().infer({{"text", Tensor::of_strings({1}, {"a cat"})},
                                                 {"text_pair", Tensor::of_strings({1}, {"the " + one.label + " sat"})}},
                                                {.outputs = {"logits"}});
    entailed.push_back(std::exp(outputs.front().second.tensor()->as<float>()[0]));
  }
  EXPECT_NEAR(scores[0].score, entailed[0] / (entailed[0] + entailed[1]), 1e-4);
  ZeroShotOptions each = options;
  each.multi_label = true;
  const std::vector<std::string> texts{"a dog", "a cat"};
  const auto alone = pipeline.zero_shot(texts, each);
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_GT(std::abs(alone[1][0].score + alone[1][1].score - 1), 1e-4) << "each for itself";
  EXPECT_EQ(alone[1][0].score, pipeline.zero_shot("a cat", each)[0].score);
  for (const ZeroShotOptions& wrong :
       {ZeroShotOptions{}, ZeroShotOptions{.labels = {"a", "a"}}, ZeroShotOptions{.labels = {""}},
        ZeroShotOptions{.labels = {"a"}, .hypothesis_template = "nothing"}}) {
    expect_error(ErrorCode::invalid_input, "", [&] { (void)pipeline.zero_shot("a", wrong); });
  }
}

TEST_F(Library, ScoresImagesByLabelsOfTheCaller) {
  const std::filesystem::path tests = GPUX_SOURCE_DIR "/tests";
  const std::filesystem::path source = tests / "importer/images/clip-vit-base-patch32", model = folder_.path() / "clip";
  importer::import_model(source, model);
  const nlohmann::json answers = nlohmann::json::parse(read_file(source / "answers.json"));
  const ZeroShotImageOptions options{.labels = answers.at("labels"), .label_template = answers.at("template")};
  const ZeroShotImageClassifier classifier(model.string(), options, {.workers = 2});
  std::vector<ImageData> images;
  for (const std::string name : answers.at("pictures")) images.emplace_back(tests / "image/pictures" / name);
  const std::vector<std::vector<LabelScore>> all = classifier.classify(images);
  ASSERT_EQ(all.size(), images.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<double> expected = answers.at("probabilities").at(i);
    ASSERT_EQ(all[i].size(), expected.size());
    for (const LabelScore& one : all[i]) {
      const auto label = std::ranges::find(options.labels, one.label) - options.labels.begin();
      EXPECT_NEAR(one.score, expected.at(static_cast<std::size_t>(label)), 1e-3) << one.label;
    }
    EXPECT_TRUE(std::ranges::is_sorted(all[i], std::ranges::greater(), &LabelScore::score));
  }
  EXPECT_EQ(classifier.classify(images[1]).front().label, all[1].front().label);
  EXPECT_EQ(classifier.verdict().active, std::vector<std::string>{"cpu"});
  const auto classifier_of = [](const std::filesystem::path& folder, const ZeroShotImageOptions& labels) {
    (void)ZeroShotImageClassifier(folder.string(), labels);
  };
  for (const ZeroShotImageOptions& wrong :
       {ZeroShotImageOptions{}, ZeroShotImageOptions{.labels = {"a", "a"}}, ZeroShotImageOptions{.labels = {""}},
        ZeroShotImageOptions{.labels = {"a"}, .label_template = "nothing"}}) {
    expect_error(ErrorCode::invalid_input, "", [&] { classifier_of(model, wrong); });
  }
  expect_error(ErrorCode::usage, "no text tower and image tower", [&] { classifier_of(encoder_, {.labels = {"a"}}); });
  write_file_atomically(model / "gpux.yml", without_zero_shot(read_file(model / "gpux.yml")));
  expect_error(ErrorCode::invalid_config, "require 'zero_shot'", [&] { classifier_of(model, {.labels = {"a"}}); });
}

TEST_F(Library, RunsListsOfTextsAndOfTensors) {
  const Model model(test::import_task_folder(folder_, "classify-bert").string());
  const auto text = [](const char* content) { return NamedValues{{"text", Tensor::of_strings({1}, {content})}}; };
  const std::vector<NamedValues> texts{text("a dog"), text("a cat sat")};
  const std::vector<NamedValues> together = model.batch_infer(texts);
  ASSERT_EQ(together.size(), 2U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_THAT(together[i].front().second.tensor()->as<float>(),
                testing::ElementsAreArray(model.infer(texts[i]).front().second.tensor()->as<float>()));
  }
  EXPECT_TRUE(model.batch_infer({}).empty());
  expect_error(ErrorCode::invalid_input, "item 1: ", [&] {
    (void)model.batch_infer(std::vector{texts[0], text("\xff")});
  });
}

TEST_F(Library, ClassifiesAndRanksAndNamesAndAnswers) {
  const Pipeline classifier(test::import_task_folder(folder_, "classify-bert").string());
  EXPECT_EQ(classifier.task(), "text-classification");
  const std::vector<std::string> texts{"the cat", "a dog sat on the mat"};
  const auto all = classifier.classify(texts);
  ASSERT_EQ(all.size(), 2U);
  double sum = 0;
  for (const LabelScore& one : all[1]) sum += one.score;
  EXPECT_NEAR(sum, 1, 1e-6);
  const std::vector<LabelScore> alone = classifier.classify(texts[1]);
  ASSERT_EQ(alone.size(), all[1].size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].label, all[1][i].label);
    EXPECT_EQ(alone[i].score, all[1][i].score);
    if (i != 0) EXPECT_GE(alone[i - 1].score, alone[i].score);
  }
  expect_error(ErrorCode::usage, "the model's task is text-classification", [&] { (void)classifier.rank("a", texts); });

  const Pipeline ranker(test::import_task_folder(folder_, "rank-mpnet").string());
  const std::vector<RankedText> ranked = ranker.rank("a cat", texts);
  ASSERT_EQ(ranked.size(), 2U);
  EXPECT_GE(ranked[0].score, ranked[1].score);

  const Pipeline names(test::import_task_folder(folder_, "entities-bert").string());
  for (const TextEntity& entity : names.find_entities("the cat sat")) EXPECT_LT(entity.begin, entity.end);

  const Pipeline answers(test::import_task_folder(folder_, "answers-distilbert").string());
  const TextAnswer answer = answers.answer("who sat", "the cat sat on the mat");
  EXPECT_LE(answer.begin, answer.end);
  EXPECT_THAT("the cat sat on the mat", HasSubstr(answer.text));

  expect_error(ErrorCode::invalid_model, "reads no texts", [] { Pipeline(GPUX_SOURCE_DIR "/tests/models/add.onnx"); });
}

// What does not load is a file in a temporary folder, of which the caller knows nothing.
TEST_F(Library, NamesTheFolderThatIsImported) {
  ModelStore store;
  const ModelOptions unloadable{.session_config = {{"optimization.minimal_build_optimizations", "none"}}};
  for (const char* name : {"importer/images/clip-vit-base-patch32", "importer/images/vit-base-patch16",
                           "generation/references/qwen3", "importer/gguf/llama-q4_0.gguf"}) {
    const std::filesystem::path source = std::filesystem::path(GPUX_SOURCE_DIR "/tests") / name;
    expect_error(ErrorCode::invalid_model, "'" + source.string() + "' cannot be loaded",
                 [&] { (void)store.import_folder(source, "unloadable", unloadable); });
  }
  EXPECT_TRUE(store.list().empty());
}

TEST_F(Library, KeepsModelsInTheStore) {
  ModelStore store;
  EXPECT_TRUE(store.list().empty());
  const StoredPackage adder = store.build(GPUX_SOURCE_DIR "/tests/models/add.onnx", "adder:1.0.0");
  EXPECT_EQ(adder.name + ":" + adder.tag, "adder:1.0.0");
  EXPECT_TRUE(adder.id.starts_with("sha256:"));
  const StoredPackage encoder = store.import_folder(encoder_, "encoder");
  EXPECT_EQ(encoder.tag, "latest");
  EXPECT_EQ(store.find("encoder")->id, encoder.id);
  EXPECT_EQ(store.find(encoder.id.substr(7, 12))->id, encoder.id);
  EXPECT_FALSE(store.find("other"));
  EXPECT_EQ(store.tag("adder:1.0.0", "sum").id, adder.id);
  std::vector<std::string> names;
  for (const StoredPackage& package : store.list()) names.push_back(package.name);
  EXPECT_THAT(names, ElementsAre("adder", "encoder", "sum"));
  EXPECT_TRUE(store.verify("sum").empty());

  const Model model("adder:1.0.0");
  EXPECT_EQ(model.version(), "1.0.0");
  const NamedValues outputs = model.infer({{"x", Tensor::of<float>({1, 3}, std::vector<float>{1, 2, 3})}});
  EXPECT_THAT(outputs.front().second.tensor()->as<float>(), ElementsAre(2, 4, 6));
  EXPECT_EQ(Embedder("encoder").embed("cat"), Embedder(encoder_.string()).embed("cat"));

  store.remove("sum");
  store.remove("adder:1.0.0");
  EXPECT_FALSE(store.find("adder:1.0.0"));
  expect_error(ErrorCode::not_found, "adder", [&] { store.remove("adder:1.0.0"); });
  expect_error(ErrorCode::not_found, "nothing", [&] { (void)store.build("nothing.onnx", "nothing"); });
}

TEST_F(Library, OptionsAreThoseOfTheModel) {
  const std::string adder = GPUX_SOURCE_DIR "/tests/models/add.onnx";
  const Model model(adder, {.provider = "cpu", .intra_threads = 1, .optimization = Optimization::basic});
  EXPECT_EQ(model.verdict().requested_from, "ModelOptions");
  expect_error(ErrorCode::usage, "ModelOptions", [&] { Model(adder, {.provider = "nonsense"}); });
  expect_error(ErrorCode::provider_unavailable, "cuda",
               [&] { Model(adder, {.provider = "cuda", .strict = Strictness::provider}); });
  expect_error(ErrorCode::not_found, "other.yml", [&] { Model(adder, {.config = "other.yml"}); });
}

TEST_F(Library, RunsModelsInWorkersThatItStarts) {
  const std::string add = GPUX_SOURCE_DIR "/tests/models/add.onnx";
  const Tensor x = Tensor::of<float>({1, 3}, std::vector<float>{1, 2, 3});
  // Without the program there is none to start.
  EXPECT_THROW(Model(add, {.isolation = Isolation::process}), Error);
  set_worker_program(GPUX_PROGRAM);
  const Model here(add), there(add, {.sandbox = Sandbox::on});
  set_worker_program({});
  EXPECT_FALSE(here.runtime().worker().has_value());
  ASSERT_TRUE(there.runtime().worker().has_value());
  EXPECT_EQ(there.runtime().worker()->state, WorkerStatus::State::ready);
  const auto sums = [&](const Model& model) {
    const NamedValues outputs = model.infer({{"x", x}});
    const std::span<const float> values = outputs.front().second.tensor()->as<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(sums(there), sums(here));
}

}  // namespace
}  // namespace gpux
