#include "embedding/embedder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "embedding/embed_all.h"
#include "embedding/encoder_folder.h"
#include "embedding/near_vectors.h"
#include "embedding/pooling.h"
#include "gpux/error.h"
#include "onnx/graph_writer.h"
#include "onnx/model_writer.h"
#include "runtime/cpu_runtime.h"

namespace gpux::embedding {
namespace {

using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

using Json = nlohmann::json;
using Vectors = std::vector<std::vector<float>>;

const std::string mean_pooling = R"({"pooling_mode_mean_tokens": true})";
constexpr float near_enough = 2e-6F;
constexpr float half_precision = 5e-4F;

/// The encoder with the poolings; loaded with one thread.
TextEmbedder encoder(const std::string& pooling, bool normalize = false, const std::string& file = "encoder.onnx",
                     std::optional<TextBatching> batching = {}) {
  const test::TemporaryFolder folder;
  const checkpoint::SentenceModel model =
      checkpoint::read_sentence_model(test::write_encoder_folder(folder, pooling, normalize, file));
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = 1;
  return {model, Runtime(model.onnx_file, options), batching};
}

Json answers() {
  return Json::parse(read_file(GPUX_SOURCE_DIR "/tests/embedding/encoder_answers.json"));
}

std::vector<float> normalized(std::vector<float> vector) {
  normalize(vector);
  return vector;
}

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was refused"};
}

class Embeddings : public CpuRuntime {};

Verdict verdict_of(std::vector<std::string> active, std::vector<std::pair<std::string, std::string>> devices) {
  Verdict verdict{.active = std::move(active)};
  for (auto& [id, kind] : devices) {
    ProviderAttempt attempt{.id = id, .outcome = ProviderAttempt::Outcome::active};
    if (!kind.empty()) attempt.devices.push_back({.kind = kind});
    verdict.tried.push_back(std::move(attempt));
  }
  return verdict;
}

TEST(DefaultBatching, IsThroughputWhereTheMostNodesRunOnAnAccelerator) {
  EXPECT_EQ(default_batching(verdict_of({"cuda", "cpu"}, {{"cuda", "gpu"}, {"cpu", "cpu"}})), TextBatching::throughput);
  EXPECT_EQ(default_batching(verdict_of({"qnn"}, {{"qnn", "npu"}})), TextBatching::throughput);
  EXPECT_EQ(default_batching(verdict_of({"cpu", "cuda"}, {{"cuda", "gpu"}, {"cpu", "cpu"}})), TextBatching::exact);
  EXPECT_EQ(default_batching(verdict_of({"openvino"}, {{"openvino", "cpu"}})), TextBatching::exact);
  EXPECT_EQ(default_batching(verdict_of({"openvino"}, {{"openvino", ""}})), TextBatching::exact) << "no known device";
  EXPECT_EQ(default_batching({}), TextBatching::exact);
}

TEST(BatchingOnDevices, HasFewRowCountsOrThoseOfTheEngine) {
  struct Case {
    const char* id;
    const char* kind;
    const char* shapes;
    std::int64_t max_rows;
    bool fills_rows;
    const char* reason;
  };

  const Case cases[] = {
      {"cuda", "gpu", "", 128, false, "why"},
      {"tensorrt", "gpu", "", 128, true,
       "why; runs are filled up to 2, 4, 8, … texts, as tensorrt compiles for each number"},
      {"tensorrt", "gpu", "input_ids:1x1..8x16..32x256", 32, false, "why; tensorrt is compiled for no more"},
      {"tensorrt", "gpu", "input_ids:1x1..8x16..256x256", 128, false, "why"},
      {"openvino", "npu", "", 128, true,
       "why; runs are filled up to 2, 4, 8, … texts, as openvino compiles for each number"},
      {"openvino", "cpu", "", 128, false, "why"},
  };
  for (const Case& one : cases) {
    Verdict verdict = verdict_of({one.id}, {{one.id, one.kind}});
    verdict.tried.front().shapes = one.shapes;
    TextSharing found{.limits = batches_on_devices, .padding = nullptr, .sharing = {.shared = true, .reason = "why"}};
    bound_rows(verdict, found);
    EXPECT_EQ(found.limits.max_rows, one.max_rows) << one.id << one.shapes;
    EXPECT_EQ(found.limits.fills_rows, one.fills_rows) << one.id << one.shapes;
    EXPECT_EQ(found.sharing.reason, one.reason);
  }
}

// In a run with more rows than texts, each gets its own vector.
TEST_F(Embeddings, AreTheSameInRunsThatAreFilledUp) {
  const TextEmbedder embedder = encoder(R"({"pooling_mode": "mean"})");
  std::vector<NamedValues> items;
  std::vector<PreparedText> prepared;
  for (const char* text : {"a b", "b a", "b b"}) prepared.push_back(embedder.encoder().prepare(text, {}));
  for (const PreparedText& text : prepared) items.push_back(text.inputs);
  const std::vector<NamedValues> results = infer_together(embedder.runtime(), items, {}, nullptr, 8);
  ASSERT_EQ(results.size(), 3U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const NamedValues alone = embedder.runtime().infer(items[i]);
    const std::span<const float> expected = alone.front().second.tensor()->as<float>();
    EXPECT_THAT(results[i].front().second.tensor()->as<float>(), Pointwise(FloatNear(near_enough), expected));
  }
}

TEST_F(Embeddings, AgreeWithNumpysOfTheSameModel) {
  for (const char* pooling : {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"}) {
    const TextEmbedder embedder = encoder(Json{{"pooling_mode", pooling}}.dump());
    EXPECT_EQ(embedder.encoder().dimension(), 16U);
    for (const Json& answer : answers()) {
      const std::vector<float> expected = answer["vectors"][pooling];
      const std::string text = answer["text"];
      EXPECT_THAT(embedder.embed(text), Pointwise(FloatNear(near_enough), expected))
          << pooling << " of '" << text << "'";
      EXPECT_THAT(embedder.embed(text, {.normalize = true}), Pointwise(FloatNear(near_enough), normalized(expected)));
    }
  }
}

TEST_F(Embeddings, PutSeveralPoolingsBehindEachOther) {
  const TextEmbedder embedder = encoder(R"({"pooling_mode": ["mean", "cls"]})");
  EXPECT_EQ(embedder.encoder().dimension(), 32U);
  for (const Json& answer : answers()) {
    std::vector<float> expected = answer["vectors"]["mean"];
    const std::vector<float> second = answer["vectors"]["cls"];
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_THAT(embedder.embed(answer["text"].get<std::string>()), Pointwise(FloatNear(near_enough), expected));
  }
}

TEST_F(Embeddings, TakeOtherElementTypesAndAModelsOwnPooling) {
  // The variant takes int32 and gives the largest of its tokens' vectors in float16, whatever the folder says of
  // pooling.
  const TextEmbedder pooled = encoder(mean_pooling, false, "encoder_variant.onnx");
  EXPECT_EQ(pooled.encoder().dimension(), 16U);
  for (const Json& answer : answers()) {
    EXPECT_THAT(pooled.embed(answer["text"].get<std::string>()),
                Pointwise(FloatNear(half_precision), answer["vectors"]["max"].get<std::vector<float>>()));
  }
}

TEST_F(Embeddings, AreCutAndNormalized) {
  const TextEmbedder embedder = encoder(mean_pooling, true);
  const std::vector<float> mean = answers()[2]["vectors"]["mean"];
  const std::string text = answers()[2]["text"];
  const std::vector<float> five(mean.begin(), mean.begin() + 5);
  EXPECT_THAT(embedder.embed(text), Pointwise(FloatNear(near_enough), normalized(mean)));
  EXPECT_THAT(embedder.embed(text, {.dimensions = 5}), Pointwise(FloatNear(near_enough), normalized(five)));
  EXPECT_THAT(embedder.embed(text, {.dimensions = 5, .normalize = false}), Pointwise(FloatNear(near_enough), five));

  // What is cut is normalised, whatever the folder says of the whole; all of a vector is not cut.
  const TextEmbedder plain = encoder(mean_pooling, false);
  EXPECT_THAT(plain.embed(text, {.dimensions = 5}), Pointwise(FloatNear(near_enough), normalized(five)));
  EXPECT_THAT(plain.embed(text, {.dimensions = 5, .normalize = false}), Pointwise(FloatNear(near_enough), five));
  EXPECT_THAT(plain.embed(text, {.dimensions = 16}), Pointwise(FloatNear(near_enough), mean));
  EXPECT_THAT(plain.embed(text, {.dimensions = 16, .normalize = true}),
              Pointwise(FloatNear(near_enough), normalized(mean)));
}

TEST_F(Embeddings, HaveThePromptBeforeTheText) {
  const TextEmbedder embedder = encoder(mean_pooling);
  EXPECT_EQ(embedder.embed("runs", {.prompt = "the model "}), embedder.embed("the model runs"));
  EXPECT_NE(embedder.embed("runs", {.prompt = "the model "}), embedder.embed("runs"));
}

TEST_F(Embeddings, LeaveThePromptOutOfThePoolingWhereTheModelSaysSo) {
  const std::string text = "the model runs";
  const auto first_counted = [&](const EmbedOptions& options) {
    return encoder(R"({"pooling_mode": "cls", "include_prompt": false})").embed(text, options);
  };
  EXPECT_EQ(first_counted({}), encoder(R"({"pooling_mode": "cls"})").embed(text));
  // [CLS] and the prompt's three tokens are out, so what counts first is the text's own first token.
  const auto whole = encoder(R"({"pooling_mode": "cls"})").embed("one line says " + text);
  EXPECT_NE(first_counted({.prompt = "one line says "}), whole);
  const auto last = encoder(R"({"pooling_mode": "lasttoken", "include_prompt": false})");
  EXPECT_EQ(last.embed(text, {.prompt = "one line says "}),
            encoder(R"({"pooling_mode": "lasttoken"})").embed("one line says " + text));
}

TEST_F(Embeddings, CutLongTexts) {
  const TextEmbedder embedder = encoder(mean_pooling);
  const std::string text = "the model runs on the processor";
  EXPECT_EQ(embedder.embed(text, {.max_tokens = 4}), embedder.embed("the model"));
  EXPECT_EQ(error_of([&] { embedder.encoder().check({.max_tokens = 33}); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { embedder.encoder().check({.max_tokens = 2}); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { embedder.encoder().check({.dimensions = 17}); }).code(), ErrorCode::usage);
  EXPECT_NO_THROW(embedder.encoder().check({.max_tokens = 32, .dimensions = 16}));
}

/// A decoder with keys and values of earlier tokens as inputs, as Qwen3-Embedding is published: a token's vector is its
/// row of a table, {1, token}.
std::string decoder_with_past(const char* output, const onnx_test::Dimensions& past) {
  constexpr std::int64_t tokens = 1500;
  std::vector<float> table;
  for (std::int64_t i = 0; i < tokens; ++i) table.insert(table.end(), {1, static_cast<float>(i)});
  onnx_test::ModelWriter model;
  for (const char* name : {"input_ids", "attention_mask", "position_ids"}) {
    model.add_input(name, ElementType::int64, {"batch", "length"});
  }
  for (const char* name : {"past_key_values.0.key", "past_key_values.0.value"}) {
    model.add_input(name, ElementType::float32, past);
  }
  return model.add_initializer("table", {tokens, 2}, table)
      .add_output(output, ElementType::float32, {"batch", "length", 2})
      .add_output("present.0.key", ElementType::float32, {"batch", 2, "total", 4})
      .add_node("Gather", {"table", "input_ids"}, {output})
      .add_node("Identity", {"past_key_values.0.key"}, {"present.0.key"})
      .bytes();
}

TEST_F(Embeddings, OfDecodersHaveEmptyCaches) {
  const test::TemporaryFolder folder;
  const auto made = [&](const char* output, const onnx_test::Dimensions& past, bool has_modules = true) {
    const std::filesystem::path encoder = test::write_encoder_folder(folder, R"({"pooling_mode": "lasttoken"})", false);
    folder.write("encoder/onnx/model.onnx", decoder_with_past(output, past));
    if (!has_modules) std::filesystem::remove(encoder / "modules.json");
    const checkpoint::SentenceModel model = checkpoint::read_sentence_model(encoder);
    return TextEmbedder(model, Runtime(model.onnx_file, {.provider = "cpu"}));
  };
  const onnx_test::Dimensions published{"batch", 2, "past", 4};
  const TextEmbedder embedder = made("last_hidden_state", published);
  const float last = static_cast<float>(embedder.encoder().tokenizer().id("[SEP]").value_or(0));
  EXPECT_EQ(embedder.embed("the model runs"), (std::vector<float>{1, last}));
  std::vector<std::vector<float>> all;
  const std::vector<std::string> texts{"the model runs", "one line", "the"};
  for (const std::string& text : texts) all.push_back(embedder.embed(text));
  EXPECT_EQ(all, (std::vector<std::vector<float>>(3, {1, last})));

  EXPECT_THAT(error_of([&] {
                (void)made("last_hidden_state", {"batch", "heads", "past", 4});
              }).message(),
              HasSubstr("input 'past_key_values.0.key' is"));
  EXPECT_THAT(error_of([&] { (void)made("logits", published); }).message(),
              HasSubstr("the model generates text: 'gpux generate' runs it"));
  const Error without = error_of([&] { (void)made("last_hidden_state", published, false); });
  EXPECT_EQ(without.code(), ErrorCode::invalid_model);
  EXPECT_THAT(without.message(), HasSubstr("no modules.json says which Pooling its vectors have"));
}

TEST_F(Embeddings, RefuseModelsThatAreNoEncoders) {
  const auto refused = [](const std::string& file) {
    const test::TemporaryFolder folder;
    checkpoint::SentenceModel model =
        checkpoint::read_sentence_model(test::write_encoder_folder(folder, mean_pooling, false));
    model.onnx_file = test_model(file);
    return error_of([&] { const TextEmbedder embedder(model, Runtime(model.onnx_file, {.provider = "cpu"})); });
  };
  EXPECT_EQ(refused("add").code(), ErrorCode::invalid_model);
  EXPECT_THAT(refused("add").message(), HasSubstr("the model asks for input 'x'; accepted: input_ids"));
  EXPECT_THAT(refused("add").message(), HasSubstr("add.onnx: "));

  const test::TemporaryFolder folder;
  checkpoint::SentenceModel model =
      checkpoint::read_sentence_model(test::write_encoder_folder(folder, mean_pooling, false));
  model.poolings.clear();
  const Error error =
      error_of([&] { const TextEmbedder embedder(model, Runtime(model.onnx_file, {.provider = "cpu"})); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_model);
  EXPECT_THAT(error.message(), HasSubstr("names no Pooling"));
}

TEST_F(Embeddings, AreOfLowerCaseWhereTheFolderSaysSo) {
  const auto made = [](const char* tokenizer, const char* settings) {
    const test::TemporaryFolder folder;
    const std::filesystem::path encoder = test::write_encoder_folder(folder, mean_pooling, false);
    folder.write("encoder/sentence_bert_config.json", settings);
    folder.write("encoder/tokenizer.json", read_file(GPUX_SOURCE_DIR "/tests/text/data/" + std::string(tokenizer)));
    const checkpoint::SentenceModel model = checkpoint::read_sentence_model(encoder);
    return TextEmbedder(model, Runtime(model.onnx_file, {.provider = "cpu"}));
  };
  const char* lower_case = R"({"do_lower_case": true})";
  EXPECT_EQ(made("wordpiece.json", lower_case).embed("The MODEL"), encoder(mean_pooling).embed("the model"));
  const TextEmbedder plain = made("bpe.json", "{}"), lowered = made("bpe.json", lower_case);
  EXPECT_EQ(lowered.embed("The MODEL"), plain.embed("the model"));
  EXPECT_NE(plain.embed("The MODEL"), plain.embed("the model"));
}

// As sentence-transformers cuts: behind Normalize, and not normalized again. A request cuts the whole vector.
TEST_F(Embeddings, AreCutAsTheFolderSays) {
  const auto made = [](const std::string& sentences) {
    const test::TemporaryFolder folder;
    const std::filesystem::path encoder = test::write_encoder_folder(folder, mean_pooling, true);
    folder.write("encoder/config_sentence_transformers.json", sentences);
    const checkpoint::SentenceModel model = checkpoint::read_sentence_model(encoder);
    return TextEmbedder(model, Runtime(model.onnx_file, {.provider = "cpu"}));
  };
  const TextEmbedder whole = made("{}"), cut = made(R"({"truncate_dim": 4})");
  EXPECT_EQ(cut.encoder().dimension(), 4U);
  std::vector<float> expected = whole.embed("the model runs");
  const std::vector<float> all = expected;
  expected.resize(4);
  EXPECT_EQ(cut.embed("the model runs"), expected);
  EXPECT_EQ(cut.embed("the model runs", {.normalize = true}), normalized(expected));
  EXPECT_EQ(cut.embed("the model runs", {.dimensions = 16}), all);
  EXPECT_EQ(cut.embed("the model runs", {.dimensions = 6}), whole.embed("the model runs", {.dimensions = 6}));
  EXPECT_NO_THROW(cut.encoder().check({.dimensions = 16}));
  EXPECT_EQ(made(R"({"truncate_dim": 16})").embed("the model runs"), all);
  EXPECT_EQ(made(R"({"truncate_dim": 99})").encoder().dimension(), 16U) << "as in sentence-transformers";
}

TEST_F(Embeddings, AreOfTextsInUtf8) {
  const TextEmbedder embedder = encoder(mean_pooling);
  const Error error = error_of([&] { (void)embedder.embed("caf\xe9"); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_THAT(error.message(), HasSubstr("not UTF-8 at byte offset 3 (0xe9)"));
  const Error prompted = error_of([&] { (void)embedder.embed("caf\xe9", {.prompt = "the question: "}); });
  EXPECT_THAT(prompted.message(), HasSubstr("not UTF-8 at byte offset 3 (0xe9)"));
}

/// Texts of many lengths, as many as asked for.
class ManyTexts {
 public:
  explicit ManyTexts(std::size_t count) : count_(count) {}

  [[nodiscard]] static std::string text(std::size_t index) {
    std::string text = "text " + std::to_string(index);
    for (std::size_t i = 0; i < index % 13; ++i) text += " of the model";
    return text;
  }

  [[nodiscard]] TextSource source() {
    return [this](std::string& text) {
      if (taken == count_) return false;
      text = ManyTexts::text(taken++);
      return true;
    };
  }

  std::size_t taken = 0;

 private:
  std::size_t count_;
};

TEST_F(Embeddings, OfManyTextsKeepOrderAndBitsOnAnyNumberOfThreads) {
  constexpr std::size_t count = 300;
  const TextEmbedder embedder = encoder(mean_pooling);
  Vectors expected;
  for (std::size_t i = 0; i < count; ++i) expected.push_back(embedder.embed(ManyTexts::text(i)));
  for (const unsigned threads : {1U, 2U, 5U}) {
    ManyTexts texts(count);
    Vectors vectors;
    const auto embedded =
        embed_all(embedder, {}, texts.source(), threads, [&](std::string_view text, std::span<const float> vector) {
          EXPECT_EQ(text, ManyTexts::text(vectors.size()));
          vectors.emplace_back(vector.begin(), vector.end());
        });
    EXPECT_EQ(embedded, count);
    EXPECT_EQ(vectors, expected) << threads << " threads";
  }
  ManyTexts none(0);
  EXPECT_EQ(embed_all(embedder, {}, none.source(), 3, [](std::string_view, std::span<const float>) { FAIL(); }), 0U);
}

TEST_F(Embeddings, ReadOnlySomeTextsAhead) {
  constexpr std::size_t count = 3000;
  constexpr unsigned threads = 2;
  const TextEmbedder embedder = encoder(mean_pooling);
  std::atomic<std::size_t> taken = 0;
  std::size_t given = 0, max_ahead = 0;
  const TextSource source = [&](std::string& text) {
    if (taken == count) return false;
    text = ManyTexts::text(taken++);
    return true;
  };
  (void)embed_all(embedder, {}, source, threads, [&](std::string_view, std::span<const float>) {
    // Slower than texts are read: they would be read as far ahead as they may.
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    max_ahead = std::max(max_ahead, taken.load() - given);
    ++given;
  });
  EXPECT_EQ(given, count);
  EXPECT_LE(max_ahead, threads * 256 + 1);
}

// encoder_variant.onnx has the largest of all tokens' vectors, whatever the mask says.
TEST_F(Embeddings, AreNotFilledUpWhereTheMaskIsNotObeyed) {
  const std::string text = "the model runs on the processor";
  const TextEmbedder obeying = encoder(mean_pooling, false, "encoder.onnx", TextBatching::throughput);
  EXPECT_EQ(obeying.encoder().filling_problem(), "");
  const PreparedText filled = obeying.encoder().prepare(text, {});
  EXPECT_EQ(filled.length, filled_length(filled.tokens));
  EXPECT_GT(obeying.batching(true).limits.max_rows, 1);
  EXPECT_THAT(obeying.batching(true).sharing.reason, testing::StartsWith("batching is throughput"));

  const TextEmbedder other = encoder(mean_pooling, false, "encoder_variant.onnx", TextBatching::throughput);
  const TextEmbedder exact = encoder(mean_pooling, false, "encoder_variant.onnx", TextBatching::exact);
  EXPECT_EQ(exact.encoder().filling_problem(), "");
  EXPECT_EQ(other.encoder().filling_problem(), "the outputs depend on what the attention_mask leaves out");
  const TextSharing batching = other.batching(true);
  EXPECT_GT(batching.limits.max_rows, 1) << "texts of one length share runs";
  EXPECT_THAT(batching.sharing.reason, HasSubstr("only texts of one length share runs: the outputs depend on"));
  for (const std::string& each : {text, std::string("a"), std::string("naïve café")}) {
    const PreparedText prepared = other.encoder().prepare(each, {});
    EXPECT_EQ(prepared.length, prepared.tokens);
    EXPECT_THAT(other.embed(each), Pointwise(FloatNear(half_precision), exact.embed(each)));
  }
}

// A model that centers the texts of a run around their mean.
TEST_F(Embeddings, ShareNoRunsWhereTheyChangeOneAnother) {
  const test::TemporaryFolder folder;
  const checkpoint::SentenceModel model =
      checkpoint::read_sentence_model(test::write_encoder_folder(folder, mean_pooling, false));
  for (const bool mixes : {false, true}) {
    onnx::GraphWriter graph("centered");
    const std::array<onnx::WrittenSize, 2> tokens{"batch", "sequence"};
    const std::array<onnx::WrittenSize, 3> vectors{"batch", "sequence", std::int64_t{4}};
    for (const char* name : {"input_ids", "attention_mask"}) graph.input(name, ElementType::int64, tokens);
    std::vector<float> table(2048 * 4);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i * 37 % 101) - 50;
    const std::string own = graph.node("Gather", {graph.floats("table", table, {2048, 4}), "input_ids"});
    const std::string mean = graph.node("ReduceMean", {own}, {{"axes", std::vector<std::int64_t>{0}}});
    graph.node("Sub", {own, mixes ? mean : graph.scalar(1)}, {}, "last_hidden_state");
    graph.output("last_hidden_state", ElementType::float32, vectors);
    graph.write(model.onnx_file, 17, 8);
    for (const TextBatching batching : {TextBatching::exact, TextBatching::throughput}) {
      const TextEmbedder embedder(model, Runtime(model.onnx_file, {.provider = "cpu", .intra_threads = 1}), batching);
      const TextSharing found = embedder.batching(true);
      EXPECT_EQ(found.sharing.shared, !mixes) << found.sharing.reason;
      EXPECT_EQ(found.limits.max_rows == 1, mixes);
      EXPECT_EQ(found.sharing.source == RunSharing::Source::trial, mixes || batching == TextBatching::exact);
    }
  }
}

TEST(NearVectors, AreApartByRoundingAlone) {
  const auto tensor = [](Shape shape, const std::vector<float>& values) {
    return Value(Tensor::of<float>(std::move(shape), values));
  };
  const Value vector = tensor({1, 2}, {3, 4}), rows = tensor({1, 2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(are_near(vector, tensor({1, 2}, {3.01F, 4}), 0.01));
  EXPECT_FALSE(are_near(vector, tensor({1, 2}, {3.2F, 4}), 0.01));
  EXPECT_TRUE(are_near(vector, tensor({1, 2}, {3.2F, 4}), 0.1));
  EXPECT_FALSE(are_near(vector, tensor({1, 2}, {NAN, 4}), 0.1));
  EXPECT_FALSE(are_near(vector, tensor({1, 3}, {3, 4, 0}), 0.1)) << "longer, but no vectors of tokens";
  EXPECT_TRUE(are_near(rows, tensor({1, 3, 2}, {1, 2, 3, 4, 90, 90}), 0.01)) << "what fills up does not count";
  EXPECT_FALSE(are_near(rows, tensor({1, 1, 2}, {1, 2}), 0.01));
  EXPECT_FALSE(are_near(rows, tensor({1, 2, 1}, {1, 2}), 0.01));
  EXPECT_LT(rounding_of("fp32"), rounding_of("int8"));
  EXPECT_EQ(rounding_of("bf16"), rounding_of(""));
}

TEST_F(Embeddings, EndAtTheFirstTextThatFails) {
  const TextEmbedder embedder = encoder(mean_pooling);

  struct {
    const char* name;
    std::size_t source_fails_at, sink_fails_at;
    std::size_t given;
  } const cases[]{{"source", 40, 1000, 40}, {"sink", 1000, 25, 25}};

  for (const auto& each : cases) {
    std::size_t taken = 0, given = 0;
    const TextSource source = [&](std::string& text) {
      if (taken == each.source_fails_at) throw Error(ErrorCode::storage, "the source fails");
      text = ManyTexts::text(taken++);
      return taken < 200;
    };
    const Error error = error_of([&] {
      (void)embed_all(embedder, {}, source, 3, [&](std::string_view, std::span<const float>) {
        if (given == each.sink_fails_at) throw Error(ErrorCode::storage, "the sink fails");
        ++given;
      });
    });
    EXPECT_EQ(error.code(), ErrorCode::storage) << each.name;
    EXPECT_EQ(error.message(), "the " + std::string(each.name) + " fails");
    EXPECT_EQ(given, each.given) << each.name;
  }
}

TEST_F(Embeddings, NameTheTextThatFails) {
  // Words are positions of a table with 64 rows: more tokens than that fail in the model.
  const test::TemporaryFolder folder;
  checkpoint::SentenceModel model =
      checkpoint::read_sentence_model(test::write_encoder_folder(folder, mean_pooling, false));
  model.max_tokens = 0;
  const TextEmbedder embedder(model, Runtime(model.onnx_file, {.provider = "cpu", .intra_threads = 1}));
  std::size_t taken = 0, given = 0;
  const TextSource source = [&](std::string& text) {
    text = "a";
    if (taken == 17 || taken == 19) {
      for (int i = 0; i < 100; ++i) text += " a";
    }
    return taken++ < 50;
  };
  const Error error = error_of(
      [&] { (void)embed_all(embedder, {}, source, 4, [&](std::string_view, std::span<const float>) { ++given; }); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_THAT(error.message(), testing::StartsWith("text 18: "));
  EXPECT_EQ(given, 17U);
  taken = 10;
  const Error later = error_of([&] {
    (void)embed_all(
        embedder, {}, source, 4, [](std::string_view, std::span<const float>) {}, 10);
  });
  EXPECT_THAT(later.message(), testing::StartsWith("text 18: "));
}

}  // namespace
}  // namespace gpux::embedding
