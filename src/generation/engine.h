#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generation/bad_words.h"
#include "generation/cache_budget.h"
#include "generation/draft_model.h"
#include "generation/key_value_cache.h"
#include "generation/model_files.h"
#include "generation/prompt_statistics.h"
#include "gpux/error.h"
#include "gpux/generator.h"
#include "gpux/runtime.h"
#include "text/token_constraint.h"
#include "text/tokenizer.h"

namespace gpux::generation {

/// A prompt to continue.
struct EngineRequest {
  std::vector<std::uint32_t> prompt;  ///< tokens, at least one
  GenerationSettings settings;        ///< have passed check()
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  std::string client;             ///< whose request it is: clients take turns
  std::uint64_t number = 0;       ///< of the request among its client's: its texts are one, and requests take turns
  bool continues_number = false;  ///< taken also where too many wait, or while requests are waited for: another text of
                                  ///< the request has just ended
  /// Keys and values of earlier prompts serve it if their requests had the same scope, and the same
  /// settings.cache_salt.
  std::string cache_scope;
  /// Special tokens that the text has, although the settings skip the others: the markers of an answer's parts.
  std::vector<std::uint32_t> shown_tokens;
  /// Whether the text answers the prompt instead of continuing it: the space with which SentencePiece begins a word is
  /// then no part of the first one.
  bool is_answer = false;
  /// Tokens that end the text as the model's own end tokens do.
  std::vector<std::uint32_t> end_tokens;
  /// Made of settings.bad_words, for several requests; null: submit() makes it.
  std::shared_ptr<const BadWords> bad_words;
  /// Made of settings.constraint by Engine::constraint(), for several requests; null: submit() makes it.
  std::shared_ptr<const text::TokenConstraint> constraint;

  /// With settings.prompt_log_probabilities, is given Completion::prompt_scores before the first token: the completion
  /// has them only where this is empty. As on_token.
  std::function<void(std::vector<TokenScore> scores)> on_prompt;
  /// Is given each token, in order, on the engine's thread: must return at once, and must not throw. May be empty.
  std::function<void(GeneratedToken token)> on_token;
  /// Is called once, on the engine's thread or by submit(), after the last token: with the completion, or with the
  /// error (deadline_exceeded, interrupted, internal; of Runtime::infer()) and what had been generated. As on_token.
  std::function<void(const std::optional<Error>& error, Completion completion)> on_end;
};

/// Counts since the engine was made, and what it does now.
struct EngineStatistics {
  std::size_t running = 0;  ///< sequences that hold a slot
  std::size_t waiting = 0;
  std::size_t slots = 0;
  std::uint64_t cached_tokens = 0;  ///< whose keys and values are in memory, those kept for later prompts counted
  std::uint64_t cache_bytes = 0;    ///< that they take
  std::uint64_t max_cache_bytes = 0;
  std::uint64_t steps = 0;          ///< runs of the model
  std::uint64_t prompt_tokens = 0;  ///< that were computed
  std::uint64_t reused_tokens = 0;  ///< of prompts, whose keys and values were there
  std::uint64_t generated_tokens = 0;
  std::uint64_t draft_tokens = 0;           ///< that were guessed and run
  std::uint64_t accepted_draft_tokens = 0;  ///< of those, the ones that the model chose
  std::uint64_t draft_model_steps = 0;      ///< runs of the draft model, those that read prompts counted
  std::uint64_t draft_model_failures = 0;   ///< 1: it failed, and is not used any more
  std::uint64_t finished = 0, cancelled = 0, failed = 0;
  std::uint64_t preempted = 0;        ///< began anew, for memory or a turn of others
  std::uint64_t restored_tokens = 0;  ///< of reused_tokens, those that were read from files
  PromptStoreStatistics files = {};   ///< of GeneratorOptions::prompt_cache
};

/// Generates the texts of many requests with one session. A request joins and leaves between two runs of the model; its
/// tokens and log probabilities do not depend on the others (CPU). Thread-safe.
class Engine {
 public:
  /// Error invalid_model: it is no decoder; resource_exhausted: the memory for keys and values does not hold a
  /// sequence, or is more than there is; usage: the draft model does not go with it. `draft`: null: there is none.
  Engine(Runtime runtime, text::Tokenizer tokenizer, ModelFiles files, const GeneratorOptions& options = {},
         std::shared_ptr<CacheBudget> budget = CacheBudget::of_process(), std::unique_ptr<DraftSource> draft = {});
  /// Ends all requests with Error interrupted.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  using Ticket = std::uint64_t;

  /// Errors invalid_input (no token, one outside the vocabulary, longer than the context), usage (max_tokens beyond the
  /// context, a token of the settings outside the vocabulary), resource_exhausted (too many wait).
  Ticket submit(EngineRequest request);

  /// The constraint, which must have a kind, for requests to this engine. Takes milliseconds, at most a second; the
  /// first one of an engine also reads the vocabulary. Errors of text::TokenVocabulary and text::TokenConstraint.
  [[nodiscard]] std::shared_ptr<const text::TokenConstraint> constraint(const OutputConstraint& constraint) const;

  /// The request ends after the run that is under way, with FinishReason::cancelled. Nothing if it has ended.
  void cancel(Ticket ticket);

  /// Requests that are not finished are waited for until `deadline`, new ones are refused.
  void drain(std::chrono::steady_clock::time_point deadline);

  [[nodiscard]] EngineStatistics statistics() const;
  /// Tokens of a prompt and its text together.
  [[nodiscard]] std::size_t context_length() const noexcept;
  /// Logits of a position.
  [[nodiscard]] std::size_t vocabulary_size() const noexcept;
  [[nodiscard]] const text::Tokenizer& tokenizer() const noexcept;
  [[nodiscard]] const ModelFiles& files() const noexcept;
  [[nodiscard]] const Runtime& runtime() const noexcept;
  /// That of the draft model; null: there is none.
  [[nodiscard]] const Runtime* draft_runtime() const noexcept;
  /// Where the decoder runs, with notes: the draft model, and if the context is shorter than the model's because memory
  /// is short.
  [[nodiscard]] Verdict verdict() const;
  /// Bytes that the keys and values of so many tokens take, with those of the draft model.
  [[nodiscard]] std::uint64_t memory_needed(std::size_t tokens) const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The most address space that the keys and values of an engine reserve, with or without memory. `context_length`:
/// tokens per text where the options give none. Pure.
std::uint64_t cache_address_bytes(const CacheLayout& cache, std::size_t context_length,
                                  const GeneratorOptions& options) noexcept;

/// The tokens of a prompt, UTF-8, with those that the tokenizer adds around a text. Error invalid_input.
std::vector<std::uint32_t> prompt_tokens(const text::Tokenizer& tokenizer, std::string_view prompt,
                                         bool adds_special_tokens = true);

/// A request whose tokens are taken on another thread than the engine's. What is not taken waits in memory.
class PieceStream {
 public:
  /// Submits the request, whose functions are replaced. The engine must outlive this. Errors of Engine::submit().
  PieceStream(Engine& engine, EngineRequest request);
  /// Cancels the request.
  ~PieceStream();
  PieceStream(const PieceStream&) = delete;
  PieceStream& operator=(const PieceStream&) = delete;

  /// Waits for the next piece; empty after the last one. Errors of the request.
  std::optional<GeneratedPiece> next();
  void cancel();
  /// The finished completion; null before next() has returned the end.
  [[nodiscard]] const Completion* completion() const noexcept;

 private:
  struct Queue;
  Engine* engine_;
  std::shared_ptr<Queue> queue_;
  Engine::Ticket ticket_;
};

/// Submits the request and waits for its end. `sink`: is given the text in pieces on the calling thread; returns false
/// to end it. What it throws is thrown as it is. Errors of Engine::submit() and of the request.
Completion generate(Engine& engine, EngineRequest request, const Generator::Sink& sink = {});

}  // namespace gpux::generation
