#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "generation/bad_words.h"
#include "generation/engine.h"
#include "generation/prompt_lookup.h"
#include "generation/run_ahead.h"
#include "generation/sampling.h"
#include "generation/settings.h"
#include "generation/text_stream.h"
#include "generation/token_bytes.h"
#include "text/token_constraint.h"

namespace gpux::generation {

/// Tokenizer, defaults and limits that all sequences of a model share. Thread-safe once it is filled.
struct SequenceContext {
  explicit SequenceContext(text::Tokenizer model_tokenizer) : tokenizer(std::move(model_tokenizer)) {}

  text::Tokenizer tokenizer;
  TokenSpelling spelling = TokenSpelling::byte_level;
  ModelDefaults defaults;
  std::size_t context_length = 0;
  bool looks_up_prompts = false;    ///< GeneratorOptions::prompt_lookup
  bool has_float16_caches = false;  ///< keys and values are float16

  /// Made by the first constraint, and kept. Error invalid_input: the tokenizer does not allow constraints.
  [[nodiscard]] text::TokenVocabulary vocabulary(std::size_t logits) const;

 private:
  mutable std::mutex mutex_;
  mutable std::optional<text::TokenVocabulary> vocabulary_;
};

/// Tokens that come behind those that a text has, or may come.
struct Upcoming {
  std::vector<std::uint32_t> tokens;
  std::size_t certain = 0;  ///< the first of them; the others are guessed
};

/// What became of the guessed tokens of a step.
struct GuessCounts {
  bool are_drafted = false;  ///< by a draft model, instead of Sequence::upcoming()
  std::size_t offered = 0;   ///< by Sequence::upcoming()
  std::size_t tried = 0, right = 0;
  bool is_wrong = false;  ///< the one behind those that were right
};

/// A request while it is processed: its tokens, how the next one is chosen, and what its caller is given.
class Sequence {
 public:
  /// Errors as of Engine::submit().
  Sequence(EngineRequest request, const SequenceContext& context, std::size_t vocabulary);

  [[nodiscard]] const EngineRequest& request() const noexcept { return request_; }

  /// Tokens of the prompt, followed by the generated ones. The prompt's come one by one where it is scored.
  [[nodiscard]] std::span<const std::uint32_t> tokens() const noexcept { return tokens_; }

  /// Of the prompt, those that run before any logits are needed: all, or the first one where it is scored.
  [[nodiscard]] std::size_t prefill_tokens() const noexcept { return is_scored() ? 1 : prompt_tokens_; }

  /// Tokens that it holds, or will when its prompt is through.
  [[nodiscard]] std::size_t promised_tokens() const noexcept { return std::max(tokens_.size(), prompt_tokens_); }

  /// Whether the next token is the prompt's.
  [[nodiscard]] bool is_in_prompt() const noexcept { return tokens_.size() < prompt_tokens_; }

  /// Tokens of which the logits can be computed in the run of the last one, at most `most`.
  [[nodiscard]] Upcoming upcoming(std::size_t most);

  /// Of guesses as the last ones of upcoming().
  [[nodiscard]] const Acceptance& acceptance() const noexcept {
    return guesses_forced_ ? forced_acceptance_ : acceptance_;
  }

  /// Of the guesses of a draft model. `others`: what is known of the other texts, which counts before the first guess.
  [[nodiscard]] const Acceptance& draft_acceptance(const Acceptance& others) noexcept;

  /// Generated tokens that may still come.
  [[nodiscard]] std::size_t left() const noexcept;

  /// Begins to guess by the logits of a draft model: the next guess() is of the next token.
  void begin_guesses();

  /// The token that the text would choose by these logits, float32[any number of tokens], if it chose the most probable
  /// one, behind those that were guessed. Empty: the text would end before, or its form does not allow any.
  [[nodiscard]] std::optional<std::uint32_t> guess(std::span<const float> logits);

  void count_guesses(const GuessCounts& counts) noexcept;

  /// The worker process ended during a run of the text, which may be the reason. Whether the text may go on in the next
  /// one: where it has got a token since the last time.
  [[nodiscard]] bool may_go_on() noexcept { return !std::exchange(is_suspect_, true); }

  /// It has got its first run. `cached`: tokens of the prompt whose keys and values were there.
  void start(std::size_t cached);

  /// So many tokens of the prompt are there now, without having been computed for it.
  void restore(std::size_t cached) noexcept;

  /// Chooses the next token by the logits of the last one, float32[vocabulary], and gives it to the caller; within the
  /// prompt, scores the token that is there. Returns why the text ends with it, if it does: end() is next. Error
  /// internal: no logit is a number.
  [[nodiscard]] std::optional<FinishReason> advance(std::span<const float> logits);

  /// Ends the text here, and calls EngineRequest::on_end: with the error resource_exhausted instead where there is no
  /// memory for the completion.
  void end(FinishReason reason) noexcept;
  void fail(const Error& error) noexcept;

 private:
  [[nodiscard]] bool is_scored() const noexcept { return request_.settings.prompt_log_probabilities.has_value(); }

  void take_from_prompt(std::span<const float> logits);
  [[nodiscard]] std::optional<FinishReason> generate(std::span<const float> logits);
  [[nodiscard]] std::uint32_t choose(std::span<const float> logits);
  [[nodiscard]] bool is_plain(std::size_t generated) const noexcept;
  void apply_rules(std::span<float> logits, std::optional<text::TokenConstraint>& constraint, std::size_t generated);
  [[nodiscard]] TokenLogProbability scored(std::uint32_t token, float log_probability) const;
  [[nodiscard]] TokenScore score(std::span<const float> logits, std::uint32_t token, std::size_t most_probable) const;
  void tell_end(std::optional<Error> error) noexcept;

  EngineRequest request_;
  const SequenceContext* context_;
  std::vector<std::uint32_t> tokens_;
  std::size_t prompt_tokens_, limit_;  // prompt_tokens: all that it has; limit: of generated tokens
  std::vector<std::uint32_t> ends_;
  Sampling sampling_;
  std::shared_ptr<const BadWords> bad_words_;  // null: there are none
  TokenCounts counts_;                         // where the sampling depends on them
  std::optional<text::TokenConstraint> constraint_;
  TextStream stream_;
  PromptLookup lookup_;
  Acceptance acceptance_, forced_acceptance_;  // of what its text repeats, and of what its form leaves no choice of
  bool guesses_forced_ = false;                // the last ones
  std::optional<Acceptance> draft_acceptance_;
  std::optional<text::TokenConstraint> guessed_constraint_;  // of the text with its guesses
  std::size_t guessed_ = 0;                                  // since begin_guesses()
  std::size_t vocabulary_;
  Completion completion_;
  bool has_started_ = false, is_repeated_ = false, has_told_prompt_ = false, is_suspect_ = false;
};

}  // namespace gpux::generation
