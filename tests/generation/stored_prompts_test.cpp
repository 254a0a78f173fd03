// The engine with prompts in files: after a restart, texts have the tokens and the bits that they have without.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/eventually.h"
#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "generation/engine.h"
#include "importer/import_model.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path tests = GPUX_SOURCE_DIR "/tests/generation";

struct Storage {
  const char* name;
  const char* model = "references/qwen3";  // a folder of other tools where it has a model.onnx
  const char* provider = "cpu";
  std::optional<onnx::BlockFormat> blocks{};
  CachePrecision precision = CachePrecision::as_written;
};

void PrintTo(const Storage& storage, std::ostream* out) {
  *out << storage.name;
}

class StoredPrompts : public testing::TestWithParam<Storage> {
 protected:
  static void SetUpTestSuite() { models_ = new test::TemporaryFolder; }

  static void TearDownTestSuite() { delete models_; }

  [[nodiscard]] static fs::path model() {
    const fs::path source = tests / GetParam().model;
    if (fs::exists(source / "model.onnx")) return source;
    const fs::path made = models_->path() / GetParam().name;
    if (!fs::exists(made)) importer::import_model(source, made, {.blocks = GetParam().blocks});
    return made;
  }

  [[nodiscard]] static std::unique_ptr<Engine> engine(const GeneratorOptions& options, unsigned threads = 2) {
    const ModelFiles files = read_model_files(model());
    LoadOptions load{.provider = GetParam().provider, .intra_threads = threads};
    load.cache_precision = GetParam().precision;
    return std::make_unique<Engine>(Runtime(model() / "model.onnx", load), text::Tokenizer::from_file(files.tokenizer),
                                    files, options);
  }

  [[nodiscard]] GeneratorOptions kept() const {
    GeneratorOptions options;
    options.prompt_cache = folder_;
    return options;
  }

  // 300 tokens of instructions, and a question.
  static EngineRequest request(std::uint32_t number) {
    EngineRequest made;
    for (std::uint32_t i = 0; i < 300; ++i) made.prompt.push_back(5 + i * 37 % 150);
    for (std::uint32_t i = 0; i < 4 + number; ++i) made.prompt.push_back(5 + (number * 31 + i * 11) % 150);
    made.settings.max_tokens = 12;
    made.settings.ignores_end = true;
    made.settings.log_probabilities = true;
    made.settings.top_log_probabilities = 2;
    made.settings.temperature = number % 2 == 0 ? 0.0F : 1.1F;
    made.settings.seed = number;
    return made;
  }

  static void expect_equal(const Completion& one, const Completion& other) {
    EXPECT_EQ(one.tokens, other.tokens);
    ASSERT_EQ(one.scores.size(), other.scores.size());
    for (std::size_t i = 0; i < one.scores.size(); ++i) {
      // Bit-identical.
      EXPECT_EQ(one.scores[i].chosen.log_probability, other.scores[i].chosen.log_probability) << i;
    }
  }

  // Computed as if no prompt had been there before.
  static const Completion& alone(std::uint32_t number) {
    static std::map<std::pair<std::string, std::uint32_t>, Completion> known;
    const auto [place, is_new] = known.try_emplace({GetParam().name, number});
    if (is_new) {
      GeneratorOptions options;
      options.reuses_prefixes = options.prompt_lookup = false;
      place->second = generate(*engine(options), request(number));
    }
    return place->second;
  }

  // A process that computes the instructions and ends.
  void fill() const { (void)generate(*engine(kept()), request(0)); }

  // One that computes something else: the instructions are not what was used last.
  void fill_with_others() const {
    EngineRequest other = request(0);
    for (std::uint32_t& token : other.prompt) token = 160 - token;
    const std::vector<fs::path> before = files();
    (void)generate(*engine(kept()), std::move(other));
    // The system's clock for files may be too coarse to tell.
    for (const fs::path& file : before) fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
  }

  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".prompt") all.push_back(entry.path());
    }
    return all;
  }

  static inline test::TemporaryFolder* models_ = nullptr;
  test::TemporaryFolder parent_;
  const fs::path folder_ = parent_.path() / "prompts";
};

// What was used last is there before the first request.
TEST_P(StoredPrompts, AreInMemoryWhenTheModelIsLoaded) {
  fill();
  const auto next = engine(kept());
  EXPECT_EQ(next->statistics().restored_tokens, 304U);
  const Completion first = generate(*next, request(3));
  expect_equal(first, alone(3));
  EXPECT_EQ(first.cached_tokens, 300U);
  EXPECT_EQ(next->statistics().files.hits, 0U);
  EXPECT_LT(next->statistics().prompt_tokens, 10U);
}

TEST_P(StoredPrompts, GiveTheSameAfterARestart) {
  fill();
  fill_with_others();
  ASSERT_EQ(files().size(), 2U);
  const auto next = engine(kept());
  EXPECT_EQ(next->statistics().files.files, 2U);
  const Completion first = generate(*next, request(3));
  expect_equal(first, alone(3));
  EXPECT_EQ(first.cached_tokens, 300U);
  const EngineStatistics counts = next->statistics();
  EXPECT_EQ(counts.restored_tokens, 304U + 300U);
  EXPECT_EQ(counts.reused_tokens, 300U);
  EXPECT_EQ(counts.files.hits, 1U);
  EXPECT_LT(counts.prompt_tokens, 10U);
  // From memory.
  const Completion second = generate(*next, request(4));
  expect_equal(second, alone(4));
  EXPECT_EQ(next->statistics().files.hits, 1U);
  EXPECT_EQ(next->statistics().files.written_files, 0U) << "another question is not worth a file";
}

TEST_P(StoredPrompts, GiveTheSameToSeveralUsers) {
  for (const std::size_t users : {1U, 4U}) {
    fs::remove_all(folder_);
    fill();
    fill_with_others();
    GeneratorOptions options = kept();
    options.max_sequences = users;
    options.prompt_chunk = 64;
    const auto many = engine(options);
    std::vector<std::jthread> threads;
    std::vector<Completion> answers(8);
    for (std::uint32_t i = 0; i < answers.size(); ++i) {
      threads.emplace_back([&, i] { answers[i] = generate(*many, request(i)); });
    }
    threads.clear();
    for (std::uint32_t i = 0; i < answers.size(); ++i) expect_equal(answers[i], alone(i));
    EXPECT_GE(many->statistics().files.hits, 1U);
  }
}

TEST_P(StoredPrompts, GiveTheSameWhereMemoryIsShort) {
  fill();
  fill_with_others();
  GeneratorOptions options = kept();
  options.context_length = 340;
  options.max_sequences = 4;
  options.cache_bytes = engine(options)->memory_needed(400);
  const auto small = engine(options);
  std::vector<std::jthread> threads;
  std::vector<Completion> answers(6);
  for (std::uint32_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] { answers[i] = generate(*small, request(i)); });
  }
  threads.clear();
  for (std::uint32_t i = 0; i < answers.size(); ++i) expect_equal(answers[i], alone(i));
}

TEST_P(StoredPrompts, AreNotFoundByOthers) {
  fill();
  const auto next = engine(kept());
  EngineRequest other = request(3);
  other.cache_scope = "another key";
  EXPECT_EQ(generate(*next, other).cached_tokens, 0U);
  EngineRequest salted = request(3);
  salted.settings.cache_salt = "salt";
  EXPECT_EQ(generate(*next, salted).cached_tokens, 0U);
  EXPECT_EQ(next->statistics().files.hits, 0U);
  EXPECT_EQ(generate(*next, request(3)).cached_tokens, 300U);
}

// Other threads may add in another order.
TEST_P(StoredPrompts, AreNotFoundByWhatComputesOtherwise) {
  fill();
  EXPECT_EQ(engine(kept(), 1)->statistics().files.files, 0U);
  EXPECT_EQ(engine(kept(), 2)->statistics().files.files, 1U);
}

TEST_P(StoredPrompts, GiveTheSameWhereAFileIsDamaged) {
  fill();
  const fs::path file = files().front();
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-20, std::ios::end);
    stream.put('\x77');
  }
  const auto next = engine(kept());
  const Completion answer = generate(*next, request(3));
  expect_equal(answer, alone(3));
  EXPECT_EQ(answer.cached_tokens, 256U) << "the first block is as it was";
  EXPECT_FALSE(fs::exists(file));
}

TEST_P(StoredPrompts, GoOnWhereNothingCanBeWritten) {
  const auto one = engine(kept());
  const test::RecordedDisk disk(
      [](const DiskCall& call) { return call.operation == DiskOperation::write ? ENOSPC : 0; });
  expect_equal(generate(*one, request(0)), alone(0));
  EXPECT_TRUE(test::eventually([&] { return one->statistics().files.skipped_writes == 1; }));
  expect_equal(generate(*one, request(1)), alone(1));
}

TEST_P(StoredPrompts, SayWhyThereAreNone) {
  parent_.write("file", "text");
  GeneratorOptions options;
  options.prompt_cache = parent_.path() / "file/prompts";
  const auto one = engine(options);
  EXPECT_THAT(one->verdict().notes, testing::Contains(HasSubstr("prompts are not kept in files: cannot make")));
  expect_equal(generate(*one, request(0)), alone(0));
}

TEST_P(StoredPrompts, AreRefusedWhereTheyWouldDoNothing) {
  GeneratorOptions options = kept();
  options.reuses_prefixes = false;
  EXPECT_THROW((void)engine(options), Error);
  options = kept();
  options.prompt_cache_bytes = 1000;
  EXPECT_THROW((void)engine(options), Error);
}

// What is longer at the end than what was stored behind the prompt.
TEST_P(StoredPrompts, HaveWhatAConversationHasAtTheEnd) {
  if (std::string_view(GetParam().provider) != "decoder") return;  // what others generate is not reused
  EngineRequest first = request(0);
  first.settings.max_tokens = 270;
  Completion answer;
  {
    const auto one = engine(kept());
    answer = generate(*one, first);
  }
  EXPECT_EQ(files().size(), 1U) << "the longer one has replaced the other";
  EngineRequest next = request(0);
  next.prompt.insert(next.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  next.prompt.insert(next.prompt.end(), {40, 41, 42});
  const Completion again = generate(*engine(kept()), next);
  EXPECT_GT(again.cached_tokens, 560U);
  GeneratorOptions plain;
  plain.prompt_lookup = false;
  expect_equal(again, generate(*engine(plain), next));
}

const onnx::BlockFormat int4{.bits = 4, .block_size = 32};

INSTANTIATE_TEST_SUITE_P(
    All, StoredPrompts,
    testing::Values(Storage{.name = "cpu_float32"}, Storage{.name = "cpu_int4", .blocks = int4},
                    Storage{.name = "cpu_float16", .precision = CachePrecision::float16},
                    Storage{.name = "decoder_float32", .provider = "decoder"},
                    Storage{.name = "decoder_float16", .provider = "decoder", .precision = CachePrecision::float16},
                    Storage{.name = "decoder_int8", .provider = "decoder", .precision = CachePrecision::int8},
                    Storage{.name = "decoder_int4_float16",
                            .provider = "decoder",
                            .blocks = int4,
                            .precision = CachePrecision::automatic},
                    Storage{.name = "copied", .model = "folders/optimum"},
                    Storage{.name = "copied_float16", .model = "folders/optimum-float16"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace gpux::generation
