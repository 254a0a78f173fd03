// The engine with tiny decoders: texts do not depend on what else is generated.
#include "generation/engine.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/eventually.h"
#include "base/own_program.h"
#include "base/stop_process.h"
#include "base/temporary_folder.h"
#include "importer/import_model.h"
#include "shared_parts.h"
#include "text/token_words.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

const fs::path references = GPUX_SOURCE_DIR "/tests/generation/references";

struct Answer {
  std::optional<Error> error;
  Completion completion;
  std::vector<std::uint32_t> given;
  std::string text;
};

// Another model that guesses, in each step.
struct Draft {
  const char* family;
  std::optional<onnx::BlockFormat> blocks = {};
};

// How the weights are stored: ONNX Runtime computes rows of blocks in other ways than rows of floats.
struct Storage {
  const char* name;
  std::optional<onnx::BlockFormat> blocks;
  const char* family = "qwen3";
  const char* provider = "cpu";
  std::optional<Draft> draft = {};
};

void PrintTo(const Storage& storage, std::ostream* out) {
  *out << storage.name;
}

class Engines : public testing::TestWithParam<Storage> {
 protected:
  static void SetUpTestSuite() { folder_ = new test::TemporaryFolder; }

  static void TearDownTestSuite() { delete folder_; }

  static std::unique_ptr<Engine> engine(const GeneratorOptions& options = {}, unsigned threads = 2,
                                        const std::shared_ptr<CacheBudget>& budget = CacheBudget::of_process()) {
    return engine_with(GetParam().draft ? draft(*GetParam().draft, threads) : nullptr, options, threads, budget);
  }

  static std::unique_ptr<Engine> engine_with(std::unique_ptr<DraftSource> draft, const GeneratorOptions& options = {},
                                             unsigned threads = 2,
                                             const std::shared_ptr<CacheBudget>& budget = CacheBudget::of_process(),
                                             const std::optional<text::Tokenizer>& tokenizer = {}) {
    const fs::path made = imported(GetParam().name, references / GetParam().family, GetParam().blocks);
    const ModelFiles files = read_model_files(made);
    return std::make_unique<Engine>(loaded(made, GetParam().provider, threads),
                                    tokenizer ? *tokenizer : text::Tokenizer::from_file(files.tokenizer), files,
                                    options, budget, std::move(draft));
  }

  static std::unique_ptr<DraftSource> draft(const Draft& one, unsigned threads) {
    const fs::path made = imported(std::string(GetParam().name) + "_draft", references / one.family, one.blocks);
    return draft_in(made, threads);
  }

  static std::unique_ptr<DraftSource> draft_in(const fs::path& made, unsigned threads,
                                               const std::string& provider = "decoder") {
    const ModelFiles files = read_model_files(made);
    return std::make_unique<DraftSource>(DraftSource{.name = "small",
                                                     .runtime = loaded(made, provider, threads),
                                                     .tokenizer = text::Tokenizer::from_file(files.tokenizer),
                                                     .context_length = files.context_length,
                                                     .is_always_used = true});
  }

  static Runtime loaded(const fs::path& folder, const std::string& provider, unsigned threads) {
    return Runtime(folder / "model.onnx", {.provider = provider, .intra_threads = threads});
  }

  static fs::path imported(const std::string& name, const fs::path& from,
                           const std::optional<onnx::BlockFormat>& blocks) {
    fs::path made = folder_->path() / name;
    if (!fs::exists(made)) importer::import_model(from, made, {.blocks = blocks});
    return made;
  }

  static EngineRequest request(std::size_t number) {
    EngineRequest made;
    std::mt19937_64 random(number);
    // Many begin alike.
    const std::size_t shared = number % 3 * 11;
    for (std::size_t i = 0; i < shared; ++i) made.prompt.push_back(static_cast<std::uint32_t>(20 + i));
    for (std::size_t i = 0; i < 1 + random() % 40; ++i) {
      made.prompt.push_back(static_cast<std::uint32_t>(5 + random() % 150));
    }
    made.settings.max_tokens = 1 + random() % 24;
    made.settings.ignores_end = true;
    made.settings.log_probabilities = true;
    made.settings.top_log_probabilities = 2;
    made.settings.temperature = number % 2 == 0 ? 0.0F : 1.2F;
    made.settings.seed = number;
    if (number % 5 == 4) made.settings.prompt_log_probabilities = 2;
    return made;
  }

  // With a gate, the engine waits for it at the request's first token.
  static std::shared_future<Answer> submitted(Engine& engine, EngineRequest made, Engine::Ticket* ticket = nullptr,
                                              const std::shared_future<void>& gate = {}) {
    auto promise = std::make_shared<std::promise<Answer>>();
    auto answer = std::make_shared<Answer>();
    made.on_token = [answer, gate](GeneratedToken token) {
      if (gate.valid()) gate.wait();
      answer->given.push_back(token.token);
      answer->text += token.text;
    };
    made.on_end = [answer, promise](const std::optional<Error>& error, Completion completion) {
      answer->error = error;
      answer->text += completion.held_text;
      answer->completion = std::move(completion);
      promise->set_value(std::move(*answer));
    };
    const Engine::Ticket given = engine.submit(std::move(made));
    if (ticket != nullptr) *ticket = given;
    return promise->get_future().share();
  }

  static void expect_equal(const Answer& one, const Answer& other, std::size_t number) {
    ASSERT_FALSE(one.error.has_value()) << number << ": " << one.error->message();
    EXPECT_EQ(one.completion.tokens, other.completion.tokens) << number;
    EXPECT_EQ(one.given, one.completion.tokens) << number;
    EXPECT_EQ(one.text, one.completion.text) << number;
    EXPECT_EQ(one.completion.text, other.completion.text) << number;
    ASSERT_EQ(one.completion.scores.size(), other.completion.scores.size()) << number;
    for (std::size_t i = 0; i < one.completion.scores.size(); ++i) {
      // The same bits.
      EXPECT_EQ(one.completion.scores[i].chosen.log_probability, other.completion.scores[i].chosen.log_probability)
          << number << " token " << i;
    }
    ASSERT_EQ(one.completion.prompt_scores.size(), other.completion.prompt_scores.size()) << number;
    // The first token of a prompt has none.
    for (std::size_t i = 1; i < one.completion.prompt_scores.size(); ++i) {
      EXPECT_EQ(one.completion.prompt_scores[i].chosen.log_probability,
                other.completion.prompt_scores[i].chosen.log_probability)
          << number << " token " << i << " of the prompt";
    }
  }

  static const std::vector<Answer>& alone() {
    static std::map<std::string, std::vector<Answer>> by_storage;
    std::vector<Answer>& answers = by_storage[GetParam().name];
    if (!answers.empty()) return answers;
    answers = [] {
      GeneratorOptions options;
      options.reuses_prefixes = false;
      options.prompt_lookup = false;
      const auto one = engine_with(nullptr, options);
      std::vector<Answer> all;
      for (std::size_t i = 0; i < requests; ++i) all.push_back(submitted(*one, request(i)).get());
      return all;
    }();
    return answers;
  }

  static void expect_as_alone(const GeneratorOptions& options) {
    const auto many = engine(options);
    std::vector<std::shared_future<Answer>> answers;
    for (std::size_t i = 0; i < requests; ++i) answers.push_back(submitted(*many, request(i)));
    for (std::size_t i = 0; i < requests; ++i) expect_equal(answers[i].get(), alone()[i], i);
    const EngineStatistics statistics = many->statistics();
    EXPECT_EQ(statistics.finished, requests);
    EXPECT_EQ(statistics.failed + statistics.cancelled, 0);
  }

  static constexpr std::size_t requests = 48;
  static inline test::TemporaryFolder* folder_ = nullptr;
};

TEST_P(Engines, GiveTheSameAloneAndAmongOthers) {
  expect_as_alone({});
}

// A text scored as a prompt has the scores with which it was generated.
TEST_P(Engines, ScoreAPromptAsTheyGenerateIt) {
  const auto one = engine();
  EngineRequest asked = request(0);
  asked.prompt.resize(1);
  asked.settings.max_tokens = 24;
  const EngineRequest first = asked;
  const Answer text = submitted(*one, std::move(asked)).get();
  EngineRequest again = first;
  again.prompt.insert(again.prompt.end(), text.given.begin(), text.given.end());
  again.settings.max_tokens = 0;
  again.settings.prompt_only = true;
  again.settings.prompt_log_probabilities = 2;
  std::vector<TokenScore> told;
  EngineRequest kept = again;
  again.on_prompt = [&told](std::vector<TokenScore> scores) { told = std::move(scores); };
  const std::size_t length = again.prompt.size();
  const std::vector<std::uint32_t> prompt = again.prompt;
  EXPECT_TRUE(submitted(*one, std::move(again)).get().completion.prompt_scores.empty());
  EXPECT_EQ(told.size(), length);
  const Completion scored = submitted(*one, std::move(kept)).get().completion;
  EXPECT_EQ(scored.reason, FinishReason::length);
  EXPECT_TRUE(scored.tokens.empty());
  EXPECT_TRUE(scored.text.empty());
  EXPECT_EQ(scored.prompt_tokens, length);
  ASSERT_EQ(scored.prompt_scores.size(), length);
  EXPECT_TRUE(std::isnan(scored.prompt_scores[0].chosen.log_probability));
  for (std::size_t i = 1; i < length; ++i) {
    const TokenScore &of_prompt = scored.prompt_scores[i], &of_text = text.completion.scores[i - 1];
    EXPECT_EQ(of_prompt.chosen.token, prompt[i]);
    EXPECT_EQ(of_prompt.chosen.log_probability, of_text.chosen.log_probability) << i;
    // The text is the most probable one.
    EXPECT_EQ(of_prompt.rank, 1);
    ASSERT_EQ(of_prompt.most_probable.size(), 2);
    EXPECT_EQ(of_prompt.most_probable[1].log_probability, of_text.most_probable[1].log_probability);
  }
  EXPECT_EQ(one->statistics().generated_tokens, text.given.size());
  // Nothing but the prompt, without scores, and a prompt of one token.
  EngineRequest plain = first;
  plain.settings.max_tokens = 0;
  plain.settings.prompt_only = true;
  const Completion none = submitted(*one, std::move(plain)).get().completion;
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_TRUE(none.prompt_scores.empty());
}

TEST_P(Engines, GiveTheSameInAnyChunks) {
  for (const std::size_t chunk : {2U, 6U, 16U}) {
    GeneratorOptions options;
    options.prompt_chunk = chunk;
    expect_as_alone(options);
  }
}

TEST_P(Engines, GiveTheSameWithPrefixesOfOthers) {
  GeneratorOptions options;
  options.max_sequences = 3;
  expect_as_alone(options);
  const auto one = engine(options);
  (void)submitted(*one, request(2)).get();
  const Answer again = submitted(*one, request(2)).get();
  expect_equal(again, alone()[2], 2);
  EXPECT_GT(again.completion.cached_tokens, 0);
  EXPECT_EQ(one->statistics().reused_tokens, again.completion.cached_tokens);
}

// Whole pages of keys and values that all texts have together.
TEST_P(Engines, GiveTheSameWithLongBeginningsOfOthers) {
  const auto asked = [](std::size_t number) {
    EngineRequest made = request(number);
    std::vector<std::uint32_t> prompt;
    for (std::uint32_t i = 0; i < 540; ++i) prompt.push_back(5 + i * i % 150);
    // Some have more of it than others.
    prompt.resize(prompt.size() - number % 3 * 7);
    made.prompt.insert(made.prompt.begin(), prompt.begin(), prompt.end());
    made.settings.prompt_log_probabilities.reset();
    return made;
  };
  constexpr std::size_t count = 12;
  GeneratorOptions options;
  options.reuses_prefixes = options.prompt_lookup = false;
  std::vector<Answer> expected;
  {
    const auto plain = engine_with(nullptr, options);
    for (std::size_t i = 0; i < count; ++i) expected.push_back(submitted(*plain, asked(i)).get());
  }
  options.reuses_prefixes = true;
  options.max_sequences = 4;
  const std::size_t before = shared_parts();
  const auto one = engine(options);
  (void)submitted(*one, asked(0)).get();
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_future<Answer>> answers;
    for (std::size_t i = 0; i < count; ++i) answers.push_back(submitted(*one, asked(i)));
    for (std::size_t i = 0; i < count; ++i) expect_equal(answers[i].get(), expected[i], i);
  }
  EXPECT_GT(one->statistics().reused_tokens, count * 500);
  EXPECT_GT(shared_parts(), before);
}

TEST_P(Engines, GiveTheSameWhereMemoryIsShort) {
  GeneratorOptions options;
  options.context_length = 100;
  options.max_sequences = 16;
  {
    const auto large = engine(options);
    options.cache_bytes = large->memory_needed(130);
  }
  const auto small = engine(options);
  std::vector<std::shared_future<Answer>> answers;
  for (std::size_t i = 0; i < requests; ++i) answers.push_back(submitted(*small, request(i)));
  for (std::size_t i = 0; i < requests; ++i) expect_equal(answers[i].get(), alone()[i], i);
  EXPECT_GT(small->statistics().preempted, 0);
  EXPECT_LE(small->statistics().cached_tokens, 130);
}

// 130 tokens for all three, of which each may have 100: they wait for one another.
TEST_P(Engines, GiveTheSameWhereSeveralShareTheMemory) {
  GeneratorOptions options;
  options.context_length = 100;
  const auto budget = std::make_shared<CacheBudget>(engine(options)->memory_needed(130));
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 3; ++i) engines.push_back(engine(options, 1, budget));
  std::vector<std::shared_future<Answer>> answers;
  for (std::size_t i = 0; i < requests; ++i) answers.push_back(submitted(*engines[i % 3], request(i)));
  bool has_exceeded = false;
  for (std::size_t i = 0; i < requests; ++i) {
    while (answers[i].wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      has_exceeded = has_exceeded || budget->held_bytes() > budget->limit_bytes();
    }
    expect_equal(answers[i].get(), alone()[i], i);
  }
  EXPECT_FALSE(has_exceeded);
  EXPECT_EQ(budget->limit_bytes(), engines.front()->memory_needed(130));
}

TEST_P(Engines, RefuseMoreMemoryThanThereIs) {
  const CacheBudget& budget = *CacheBudget::of_process();
  GeneratorOptions options;
  options.cache_bytes = budget.free_bytes() * 2;
  try {
    (void)engine(options);
    FAIL() << "there is not so much memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("cache_bytes is"));
  }
}

TEST_P(Engines, ReusePrefixesWithinAScope) {
  const auto one = engine();
  const auto cached = [&](const std::string& scope, const std::string& salt) {
    EngineRequest made = request(2);
    made.cache_scope = scope;
    made.settings.cache_salt = salt;
    const Answer answer = submitted(*one, std::move(made)).get();
    expect_equal(answer, alone()[2], 2);
    return answer.completion.cached_tokens;
  };
  EXPECT_EQ(cached("one", ""), 0);
  EXPECT_GT(cached("one", ""), 0);
  EXPECT_EQ(cached("other", ""), 0);
  EXPECT_EQ(cached("one", "salt"), 0);
  EXPECT_EQ(cached("", "one"), 0);
  EXPECT_GT(cached("other", ""), 0);
  EXPECT_GT(cached("one", "salt"), 0);
}

// All slots, and all waiting texts, are of one request.
TEST_P(Engines, DoNotLetARequestKeepOthersWaiting) {
  GeneratorOptions options;
  options.max_sequences = 4;
  const auto many = engine(options);
  std::promise<void> all_submitted, all_run, small_submitted;
  const std::shared_future<void> submitted_gate = all_submitted.get_future().share(),
                                 small_gate = small_submitted.get_future().share();
  std::atomic<std::size_t> begun = 0;
  std::vector<std::future<std::optional<Error>>> ends;
  std::vector<Engine::Ticket> tickets;
  for (std::size_t i = 0; i < 24; ++i) {
    EngineRequest made = request(i);
    made.number = 1;
    made.settings.max_tokens = 400;
    made.on_token = [&, is_first = true](const GeneratedToken& /*token*/) mutable {
      if (!std::exchange(is_first, false)) return;
      submitted_gate.wait();
      if (++begun != options.max_sequences) return;
      all_run.set_value();
      small_gate.wait();
    };
    const auto promise = std::make_shared<std::promise<std::optional<Error>>>();
    ends.push_back(promise->get_future());
    made.on_end = [promise](const std::optional<Error>& error, const Completion& /*completion*/) {
      promise->set_value(error);
    };
    tickets.push_back(many->submit(std::move(made)));
  }
  all_submitted.set_value();
  all_run.get_future().wait();
  EngineRequest small = request(2);
  small.number = 2;
  small.settings.max_tokens = 1;
  const auto answer = submitted(*many, std::move(small));
  small_submitted.set_value();
  EXPECT_EQ(answer.get().completion.tokens.size(), 1);
  EXPECT_EQ(many->statistics().finished, 1) << "none of the others has ended";
  EXPECT_EQ(many->statistics().preempted, 1);
  for (const Engine::Ticket ticket : tickets) many->cancel(ticket);
  for (auto& end : ends) EXPECT_FALSE(end.get().has_value());
}

// What a caller's function throws is an error of its request, and of no other.
TEST_P(Engines, OutliveWhatOneTextThrows) {
  const auto one = engine();
  EngineRequest made = request(1);
  std::promise<std::optional<Error>> promise;
  made.on_token = [](const GeneratedToken& /*token*/) { throw std::bad_alloc(); };
  made.on_end = [&](const std::optional<Error>& error, const Completion& /*completion*/) {
    promise.set_value(error);
    throw std::bad_alloc();
  };
  const auto other = submitted(*one, request(2));
  (void)one->submit(std::move(made));
  const std::optional<Error> error = promise.get_future().get();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::resource_exhausted);
  expect_equal(other.get(), alone()[2], 2);
  expect_equal(submitted(*one, request(3)).get(), alone()[3], 3);
}

TEST_P(Engines, LetTextsJoinAndLeave) {
  const auto many = engine();
  Engine::Ticket endless = 0;
  EngineRequest long_one = request(1);
  long_one.settings.max_tokens = 500;
  std::promise<void> gate;
  const auto first = submitted(*many, std::move(long_one), &endless, gate.get_future().share());
  const auto second = submitted(*many, request(2));
  many->cancel(endless);
  gate.set_value();
  expect_equal(second.get(), alone()[2], 2);
  EXPECT_EQ(first.get().completion.reason, FinishReason::cancelled);
  EXPECT_FALSE(first.get().error.has_value());
  expect_equal(submitted(*many, request(3)).get(), alone()[3], 3);
}

TEST_P(Engines, LoseNothingWhereManyLeaveAtAnyTime) {
  GeneratorOptions options;
  options.max_sequences = 5;
  options.max_waiting = 1000;
  const auto many = engine(options);
  std::mt19937_64 random(11);
  std::vector<std::pair<std::size_t, std::shared_future<Answer>>> answers;
  std::vector<Engine::Ticket> tickets;
  constexpr std::size_t count = 400;
  std::size_t cancels = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = random() % requests;
    Engine::Ticket ticket = 0;
    answers.emplace_back(number, submitted(*many, request(number), &ticket));
    tickets.push_back(ticket);
    if (random() % 2 == 0) {
      many->cancel(tickets[random() % tickets.size()]);
      ++cancels;
    }
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 4));
  }
  std::size_t finished = 0;
  for (const auto& [number, answer] : answers) {
    const Answer& got = answer.get();
    if (got.completion.reason != FinishReason::cancelled) {
      expect_equal(got, alone()[number], number);
      ++finished;
      continue;
    }
    // What was generated is the beginning of the answer.
    const auto& whole = alone()[number].completion.tokens;
    ASSERT_LE(got.completion.tokens.size(), whole.size());
    EXPECT_TRUE(std::equal(got.completion.tokens.begin(), got.completion.tokens.end(), whole.begin()));
  }
  const EngineStatistics statistics = many->statistics();
  EXPECT_EQ(statistics.finished, finished);
  EXPECT_EQ(statistics.finished + statistics.cancelled, count);
  EXPECT_LE(statistics.cancelled, cancels);
  EXPECT_GT(finished, 0);
}

TEST_P(Engines, EndWhatRunsWhenTheyAreDestroyed) {
  auto one = engine();
  EngineRequest long_one = request(1);
  long_one.settings.max_tokens = 500;
  std::promise<void> gate;
  const auto answer = submitted(*one, std::move(long_one), nullptr, gate.get_future().share());
  const std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.set_value();
  });
  one.reset();
  ASSERT_TRUE(answer.get().error.has_value());
  EXPECT_EQ(answer.get().error->code(), ErrorCode::interrupted);
}

TEST_P(Engines, EndRequestsPastTheirDeadline) {
  const auto one = engine();
  EngineRequest late = request(1);
  late.deadline = steady_clock::now();
  const Answer answer = submitted(*one, std::move(late)).get();
  ASSERT_TRUE(answer.error.has_value());
  EXPECT_EQ(answer.error->code(), ErrorCode::deadline_exceeded);
}

TEST_P(Engines, RefuseOptionsAndRequestsThatDoNotFit) {
  const auto failure = [](const GeneratorOptions& options) -> std::string {
    try {
      (void)engine(options);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  GeneratorOptions options;
  options.max_sequences = 0;
  EXPECT_THAT(failure(options), HasSubstr("max_sequences is 0"));
  options = {};
  options.prompt_chunk = 7;
  EXPECT_THAT(failure(options), HasSubstr("prompt_chunk is 7"));
  options = {};
  options.context_length = 641;
  EXPECT_THAT(failure(options), HasSubstr("context_length is 641; accepted: up to 640"));
  options = {};
  options.cache_bytes = 100;
  EXPECT_THAT(failure(options), HasSubstr("100 are allowed"));

  options = {};
  options.max_sequences = 1;
  options.max_waiting = 0;
  const auto busy = engine(options);
  EngineRequest long_one = request(1);
  long_one.settings.max_tokens = 500;
  Engine::Ticket ticket = 0;
  std::promise<void> gate;
  const auto answer = submitted(*busy, std::move(long_one), &ticket, gate.get_future().share());
  try {
    (void)busy->submit(request(2));
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
  }
  busy->cancel(ticket);
  gate.set_value();
  (void)answer.get();
  EngineRequest unknown = request(1);
  unknown.prompt.push_back(99999);
  EXPECT_THROW((void)busy->submit(std::move(unknown)), Error);
}

// Also with a model whose matrices are large enough to be shared by threads.
class EnginesOfThreads : public Engines {};

TEST_P(EnginesOfThreads, GiveTheSameWithOneAndWithTwo) {
  const auto one = engine({}, 1);
  std::vector<std::shared_future<Answer>> answers;
  for (std::size_t i = 0; i < requests; ++i) answers.push_back(submitted(*one, request(i)));
  for (std::size_t i = 0; i < requests; ++i) expect_equal(answers[i].get(), alone()[i], i);
}

// What is guessed changes no token: neither where texts repeat themselves, nor where they are sampled, nor where a rule
// decides.
class EnginesThatGuess : public Engines {
 protected:
  static EngineRequest repeating(std::size_t number) {
    EngineRequest made = request(number);
    made.settings.prompt_log_probabilities.reset();
    const std::vector<std::uint32_t> words{7, 31, 8, 90, 45, 61, 22, 13};
    made.prompt.clear();
    for (std::size_t i = 0; i < 60 + number; ++i) made.prompt.push_back(words[i % (3 + number % 6)]);
    made.settings.max_tokens = 100;
    if (number % 4 == 1) made.settings.temperature = 0.5F;
    if (number % 4 == 2) made.settings.repetition_penalty = 1.3F;
    if (number % 4 == 3) {
      made.settings.ignores_end = false;
      made.settings.min_tokens = 40;
      made.settings.presence_penalty = 0.5F;
    }
    return made;
  }
};

TEST_P(EnginesThatGuess, GiveTheSameAsWithoutGuesses) {
  constexpr std::size_t count = 16;
  std::vector<Answer> expected;
  {
    GeneratorOptions options;
    options.prompt_lookup = options.reuses_prefixes = false;
    const auto plain = engine_with(nullptr, options);
    for (std::size_t i = 0; i < count; ++i) expected.push_back(submitted(*plain, repeating(i)).get());
    EXPECT_EQ(plain->statistics().draft_tokens, 0);
  }
  for (const std::size_t users : {1U, 3U, 16U}) {
    GeneratorOptions options;
    options.max_sequences = users;
    const auto guessing = engine(options);
    std::vector<std::shared_future<Answer>> answers;
    for (std::size_t i = 0; i < count; ++i) answers.push_back(submitted(*guessing, repeating(i)));
    std::size_t drafts = 0, accepted = 0, tokens = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Answer answer = answers[i].get();
      expect_equal(answer, expected[i], i);
      EXPECT_LE(answer.completion.accepted_draft_tokens, answer.completion.draft_tokens);
      drafts += answer.completion.draft_tokens;
      accepted += answer.completion.accepted_draft_tokens;
      tokens += answer.completion.tokens.size();
    }
    const EngineStatistics statistics = guessing->statistics();
    EXPECT_EQ(statistics.draft_tokens, drafts);
    EXPECT_EQ(statistics.accepted_draft_tokens, accepted);
    EXPECT_EQ(statistics.generated_tokens, tokens);
    // Others decide by the times of this machine.
    if (users == 1) EXPECT_GT(accepted, 0);
  }
}

// With a tokenizer that has a token for each character, there is one way to write the names.
TEST_P(EnginesThatGuess, RunWhatAFormLeavesNoChoiceOfTogether) {
  const text::Tokenizer letters = text::Tokenizer::from_json(test::made_tokenizer("metaspace", {}));
  const auto writing = [&](const GeneratorOptions& options) {
    return engine_with(nullptr, options, 2, CacheBudget::of_process(), letters);
  };
  const auto formed = [](std::size_t number) {
    EngineRequest made = request(number);
    made.settings.prompt_log_probabilities.reset();
    made.settings.max_tokens = 200;
    made.settings.ignores_end = false;
    made.settings.constraint = {OutputConstraint::Kind::regex,
                                R"_(\{"temperature":(true|false),"pressure":"(far_too_high|low)"\})_"};
    return made;
  };
  constexpr std::size_t count = 6;
  std::vector<Answer> expected;
  {
    GeneratorOptions options;
    options.prompt_lookup = false;
    const auto plain = writing(options);
    for (std::size_t i = 0; i < count; ++i) expected.push_back(submitted(*plain, formed(i)).get());
  }
  for (const std::size_t users : {1U, 6U}) {
    GeneratorOptions options;
    options.max_sequences = users;
    const auto guessing = writing(options);
    std::vector<std::shared_future<Answer>> answers;
    for (std::size_t i = 0; i < count; ++i) answers.push_back(submitted(*guessing, formed(i)));
    std::size_t accepted = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Answer answer = answers[i].get();
      expect_equal(answer, expected[i], i);
      EXPECT_THAT(answer.text, testing::AllOf(testing::HasSubstr("temperature"), testing::HasSubstr("pressure")))
          << answer.text;
      accepted += answer.completion.accepted_draft_tokens;
    }
    // How many of the letters without a choice run together depends on the times of this machine.
    if (users == 1) EXPECT_GT(accepted, 0);
  }
}

// The next turn of a conversation begins with the answer before it.
TEST_P(EnginesThatGuess, ReuseWhatTheyGenerated) {
  EngineRequest first = request(0);
  first.settings.max_tokens = 24;
  const std::vector<std::uint32_t> prompt = first.prompt;
  const auto one = engine();
  const Answer answer = submitted(*one, std::move(first)).get();
  EngineRequest next = request(0);
  next.prompt.insert(next.prompt.end(), answer.given.begin(), answer.given.end());
  next.prompt.insert(next.prompt.end(), {40, 41, 42, 43});
  next.settings.max_tokens = 24;
  const EngineRequest again = next;
  const Answer reusing = submitted(*one, std::move(next)).get();
  EXPECT_GT(reusing.completion.cached_tokens, prompt.size() + 20);
  expect_equal(reusing, submitted(*engine(), again).get(), 0);
}

// The tokens of a prompt that is scored are known: they run several at a time.
TEST_P(EnginesThatGuess, ScoreAPromptInFewerSteps) {
  const auto one = engine();
  EngineRequest scored = repeating(0);
  scored.settings.prompt_log_probabilities = 2;
  scored.settings.prompt_only = true;
  scored.settings.max_tokens = 0;
  const std::size_t length = scored.prompt.size();
  (void)submitted(*one, std::move(scored)).get();
  EXPECT_LT(one->statistics().steps, length / 2);
}

// Guesses of another model.
class EnginesWithDraft : public EnginesThatGuess {
 protected:
  static Answer answer_without_draft(EngineRequest made) {
    GeneratorOptions options;
    options.prompt_lookup = false;
    return submitted(*engine_with(nullptr, options), std::move(made)).get();
  }

  static EngineRequest long_text(std::size_t number) {
    EngineRequest made = request(number);
    made.settings.prompt_log_probabilities.reset();
    made.settings.temperature = 0;
    made.settings.max_tokens = 200;
    return made;
  }

  static bool is_right() { return std::string_view(GetParam().name).ends_with("of_itself"); }
};

TEST_P(EnginesWithDraft, RunFewerStepsWhereGuessesAreRight) {
  GeneratorOptions options;
  options.prompt_lookup = false;
  const auto one = engine(options);
  const Answer answer = submitted(*one, long_text(2)).get();
  expect_equal(answer, answer_without_draft(long_text(2)), 2);
  const EngineStatistics statistics = one->statistics();
  EXPECT_EQ(answer.completion.draft_tokens, statistics.draft_tokens);
  EXPECT_GT(statistics.draft_tokens, 100);
  EXPECT_GT(statistics.draft_model_steps, 100);
  if (is_right()) {
    EXPECT_EQ(statistics.accepted_draft_tokens, statistics.draft_tokens);
    EXPECT_LT(statistics.steps, 30);
  } else {
    EXPECT_LT(statistics.accepted_draft_tokens, statistics.draft_tokens);
  }
  EXPECT_EQ(statistics.draft_model_failures, 0);
}

// A form is one of the guesses, too; and the text ends where it ends.
TEST_P(EnginesWithDraft, GuessWhatAFormAllows) {
  const text::Tokenizer characters = text::Tokenizer::from_json(test::made_tokenizer("metaspace", {}));
  const auto answer_of = [&](std::unique_ptr<DraftSource> source) {
    if (source) source->tokenizer = characters;
    EngineRequest made = long_text(2);
    made.prompt.resize(5);
    for (std::uint32_t& token : made.prompt) token %= characters.vocabulary_size();
    made.settings.ignores_end = false;
    made.settings.constraint = {.kind = OutputConstraint::Kind::regex, .text = "[a-c]{30}"};
    GeneratorOptions options;
    options.prompt_lookup = false;
    const auto one = engine_with(std::move(source), options, 2, CacheBudget::of_process(), characters);
    return submitted(*one, std::move(made)).get();
  };
  const Answer answer = answer_of(draft(*GetParam().draft, 2));
  expect_equal(answer, answer_of(nullptr), 2);
  EXPECT_EQ(answer.text.size(), 30);
  EXPECT_GT(answer.completion.draft_tokens, 0);
  // The last one may end the text.
  if (is_right()) EXPECT_GE(answer.completion.accepted_draft_tokens + 1, answer.completion.draft_tokens);
}

// What a slot keeps of an earlier prompt need not be read again.
TEST_P(EnginesWithDraft, ReadAPromptOnce) {
  GeneratorOptions options;
  options.prompt_chunk = 2;
  const auto one = engine(options);
  const auto steps_of = [&] {
    const std::uint64_t before = one->statistics().draft_model_steps;
    EngineRequest made = long_text(2);
    made.prompt.resize(41, 7);
    made.settings.max_tokens = 3;
    (void)submitted(*one, std::move(made)).get();
    return one->statistics().draft_model_steps - before;
  };
  const std::uint64_t first = steps_of();
  EXPECT_GE(first, 16);
  EXPECT_LT(steps_of(), first - 12);
}

// One that fails, as it has no positions for a text, costs nothing but the guesses.
TEST_P(EnginesWithDraft, GoOnWithoutADraftModelThatFails) {
  const fs::path edited = folder_->path() / "edited" / GetParam().name;
  fs::create_directories(edited.parent_path());
  fs::copy(references / "qwen3", edited);
  std::ifstream in(edited / "config.json");
  std::string config((std::istreambuf_iterator<char>(in)), {});
  config.replace(config.find("640"), 3, "64");
  std::ofstream(edited / "config.json") << config;
  std::unique_ptr<DraftSource> failing = draft_in(imported(std::string(GetParam().name) + "_short", edited, {}), 2);
  failing->context_length = 640;
  const auto one = engine_with(std::move(failing));
  std::vector<std::shared_future<Answer>> answers;
  for (const std::size_t i : {2U, 3U}) answers.push_back(submitted(*one, long_text(i)));
  expect_equal(answers[0].get(), answer_without_draft(long_text(2)), 2);
  expect_equal(answers[1].get(), answer_without_draft(long_text(3)), 3);
  EXPECT_EQ(one->statistics().draft_model_failures, 1);
  const std::uint64_t steps = one->statistics().draft_model_steps;
  EXPECT_GT(steps, 0);
  expect_equal(submitted(*one, long_text(4)).get(), answer_without_draft(long_text(4)), 4);
  EXPECT_EQ(one->statistics().draft_model_steps, steps);
}

// One in a worker process that hangs or ends does not hold the texts up.
TEST_P(EnginesWithDraft, GoOnWithoutADraftModelWhoseWorkerHangsOrEnds) {
  set_worker_program(GPUX_PROGRAM);
  const Answer expected = answer_without_draft(long_text(2));
  for (const bool hangs : {true, false}) {
    std::unique_ptr<DraftSource> source = draft(*GetParam().draft, 2);
    LoadOptions in_worker;
    in_worker.provider = "decoder";
    in_worker.intra_threads = 2;
    in_worker.isolation = Isolation::process;
    in_worker.stop_grace = std::chrono::milliseconds(100);
    source->runtime = Runtime(source->runtime.weights_file(), in_worker);
    source->patience = std::chrono::milliseconds(500);
    GeneratorOptions options;
    options.prompt_lookup = false;
    const auto one = engine_with(std::move(source), options);
    expect_equal(submitted(*one, long_text(2)).get(), expected, 2);
    const std::uint64_t steps = one->statistics().draft_model_steps;
    EXPECT_GT(steps, 0);
    const pid_t worker = one->draft_runtime()->worker()->process_id;
    ASSERT_GT(worker, 1);
    if (hangs) {
      ASSERT_TRUE(test::stop_process(worker));
      expect_equal(submitted(*one, long_text(2)).get(), expected, 2);
    } else {
      std::shared_future<Answer> answer = submitted(*one, long_text(2));
      ASSERT_TRUE(test::eventually([&] { return one->statistics().draft_model_steps > steps; }));
      ::kill(worker, SIGKILL);
      expect_equal(answer.get(), expected, 2);
    }
    expect_equal(submitted(*one, long_text(2)).get(), expected, 2);
    EXPECT_EQ(one->statistics().draft_model_failures, 1);
  }
  set_worker_program({});
}

TEST_P(EnginesWithDraft, RefuseWhatCannotGuess) {
  const fs::path made = imported(std::string(GetParam().name) + "_small", references / "qwen3", {});
  const auto failure = [](std::unique_ptr<DraftSource> source) -> std::string {
    try {
      (void)engine_with(std::move(source));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return error.message();
    }
    return "";
  };
  EXPECT_THAT(failure(draft_in(made, 2, "cpu")), AllOf(HasSubstr("draft is 'small'"), HasSubstr("runs on cpu")));
  std::unique_ptr<DraftSource> other = draft_in(made, 2);
  std::ifstream in(made / "tokenizer.json");
  std::string json((std::istreambuf_iterator<char>(in)), {});
  json.replace(json.find("\"w7\""), 4, "\"W7\"");
  other->tokenizer = text::Tokenizer::from_json(json);
  EXPECT_THAT(failure(std::move(other)), HasSubstr("token 11 is 'w7' in the model and 'W7' in the draft model"));
}

// Only the decoder provider computes guessed tokens as others.
TEST(EngineWithDraft, IsRefusedOnOtherProviders) {
  const test::TemporaryFolder folder;
  const fs::path made = folder.path() / "model";
  importer::import_model(references / "qwen3", made, {});
  const ModelFiles files = read_model_files(made);
  const text::Tokenizer tokenizer = text::Tokenizer::from_file(files.tokenizer);
  const auto runtime = [&](const char* provider) { return Runtime(made / "model.onnx", {.provider = provider}); };
  auto draft = std::make_unique<DraftSource>(DraftSource{
      .name = "small", .runtime = runtime("decoder"), .tokenizer = tokenizer, .context_length = files.context_length});
  try {
    const Engine engine(runtime("cpu"), tokenizer, files, {}, CacheBudget::of_process(), std::move(draft));
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("the model runs on cpu"), HasSubstr("accepted: provider decoder")));
  }
}

const onnx::BlockFormat int4_of_32{.bits = 4, .block_size = 32}, int8_of_32{.bits = 8, .block_size = 32};

const auto storages_with_draft =
    testing::Values(Storage{"float32_with_draft_of_int4", {}, "qwen3", "decoder", Draft{"qwen3", int4_of_32}},
                    Storage{"int4_with_draft_of_others", int4_of_32, "qwen3", "decoder", Draft{"llama3"}},
                    Storage{"int8_with_draft_of_itself", int8_of_32, "gemma2", "decoder", Draft{"gemma2", int8_of_32}});

const auto storages_of_decoder =
    testing::Values(Storage{"decoder_float32", {}, "qwen3", "decoder"},
                    Storage{"decoder_int4", onnx::BlockFormat{.bits = 4, .block_size = 32}, "qwen3", "decoder"},
                    Storage{"decoder_int8", onnx::BlockFormat{.bits = 8, .block_size = 32}, "gemma2", "decoder"});

const auto storages = testing::Values(
    Storage{"float32", {}}, Storage{"gpt2", {}, "gpt2"}, Storage{"gemma2", {}, "gemma2"},
    Storage{"phi3_narrow", {}, "phi3-narrow"}, Storage{"int4_of_32", onnx::BlockFormat{.bits = 4, .block_size = 32}},
    Storage{"int4_of_128", onnx::BlockFormat{.bits = 4, .block_size = 128}},
    Storage{"int8_of_32", onnx::BlockFormat{.bits = 8, .block_size = 32}},
    Storage{"int8_of_128", onnx::BlockFormat{.bits = 8, .block_size = 128}},
    Storage{"int4_of_32_with_zero_points", onnx::BlockFormat{.bits = 4, .block_size = 32, .has_zero_points = true}},
    Storage{"int4_of_128_with_zero_points", onnx::BlockFormat{.bits = 4, .block_size = 128, .has_zero_points = true}},
    Storage{"int8_of_128_with_zero_points", onnx::BlockFormat{.bits = 8, .block_size = 128, .has_zero_points = true}});

const auto name_of_storage = [](const auto& test) { return std::string(test.param.name); };

INSTANTIATE_TEST_SUITE_P(Weights, Engines, storages, name_of_storage);
INSTANTIATE_TEST_SUITE_P(Weights, EnginesOfThreads, storages, name_of_storage);
INSTANTIATE_TEST_SUITE_P(DecoderProvider, Engines, storages_of_decoder, name_of_storage);
INSTANTIATE_TEST_SUITE_P(DecoderProvider, EnginesOfThreads, storages_of_decoder, name_of_storage);
INSTANTIATE_TEST_SUITE_P(DecoderProvider, EnginesThatGuess, storages_of_decoder, name_of_storage);
INSTANTIATE_TEST_SUITE_P(Draft, Engines, storages_with_draft, name_of_storage);
INSTANTIATE_TEST_SUITE_P(Draft, EnginesOfThreads, storages_with_draft, name_of_storage);
INSTANTIATE_TEST_SUITE_P(Draft, EnginesThatGuess, storages_with_draft, name_of_storage);
INSTANTIATE_TEST_SUITE_P(Draft, EnginesWithDraft, storages_with_draft, name_of_storage);
INSTANTIATE_TEST_SUITE_P(LargerWeights, EnginesOfThreads,
                         testing::Values(Storage{"gguf", {}, GPUX_SOURCE_DIR "/tests/importer/gguf/qwen3-mixed.gguf"}),
                         name_of_storage);

}  // namespace
}  // namespace gpux::generation
