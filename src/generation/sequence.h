#pragma once

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

  /// Made by the first constraint, and kept. Error invalid_input: the tokenizer does not allow constraints.
  [[nodiscard]] text::TokenVocabulary vocabulary(std::size_t logits) const;

 private:
  mutable std::mutex mutex_;
  mutable std::optional<text::TokenVocabulary> vocabulary_;
};

/// A request while it is processed: its tokens, how the next one is chosen, and what its caller is given.
class Sequence {
 public:
  /// Errors as of Engine::submit().
  Sequence(EngineRequest request, const SequenceContext& context, std::size_t vocabulary);

  [[nodiscard]] const EngineRequest& request() const noexcept { return request_; }

  /// Tokens of the prompt, followed by the generated ones.
  [[nodiscard]] std::span<const std::uint32_t> tokens() const noexcept { return tokens_; }

  [[nodiscard]] std::size_t prompt_tokens() const noexcept { return prompt_tokens_; }

  /// It has got its first run. `cached`: tokens of the prompt whose keys and values were there.
  void start(std::size_t cached);

  /// Chooses the next token by the logits of the last one, float32[vocabulary], and gives it to the caller. Returns why
  /// the text ends with it, if it does: end() is next. Error internal: no logit is a number.
  [[nodiscard]] std::optional<FinishReason> advance(std::span<const float> logits);

  /// Ends the text here, and calls EngineRequest::on_end: with the error resource_exhausted instead where there is no
  /// memory for the completion.
  void end(FinishReason reason) noexcept;
  void fail(const Error& error) noexcept;

 private:
  [[nodiscard]] std::uint32_t choose(std::span<const float> logits);
  [[nodiscard]] TokenScore score(std::span<const float> logits, std::uint32_t token) const;
  void tell_end(std::optional<Error> error) noexcept;

  EngineRequest request_;
  const SequenceContext* context_;
  std::vector<std::uint32_t> tokens_;
  std::size_t prompt_tokens_, limit_;  // limit: of generated tokens
  std::vector<std::uint32_t> ends_;
  Sampling sampling_;
  std::shared_ptr<const BadWords> bad_words_;  // null: there are none
  TokenCounts counts_;                         // where the sampling depends on them
  std::optional<text::TokenConstraint> constraint_;
  TextStream stream_;
  Completion completion_;
  bool has_started_ = false;
};

}  // namespace gpux::generation
