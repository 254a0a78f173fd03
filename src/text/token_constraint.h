#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpux/output_constraint.h"
#include "text/tokenizer.h"

namespace gpux::text {

/// The tokens of a model, as constraints read them. Never changed once it is made: may be used by several threads at
/// once. Copies are the same one, and so are those made of the same arguments as long as the tokenizer lives: making
/// the first one takes a part of a second for a vocabulary of 150,000 tokens.
class TokenVocabulary {
 public:
  /// `logits`: the size of the model's logits. Tokens from the tokenizer's vocabulary on, and special tokens, are never
  /// allowed. `end_tokens`: those that end a text; they are allowed where the text is complete. Those that have
  /// no logits are left out; there may be none.
  /// Error invalid_input: the tokenizer spells a token by its neighbours (WordPiece, word-level), so that no token can
  /// be chosen by its text.
  TokenVocabulary(const Tokenizer& tokenizer, std::size_t logits, std::span<const std::uint32_t> end_tokens);

  /// Whether they are the same one.
  bool operator==(const TokenVocabulary&) const = default;

  [[nodiscard]] std::size_t logits() const noexcept;

 private:
  friend class TokenConstraint;
  struct State;
  std::shared_ptr<const State> state_;
};

/// Which tokens may come next in one text, so that the text gets a given form. The text is what Tokenizer::decode()
/// makes of the tokens that were accepted, without the prompt's: a first space that the decoder removes is not part of
/// it. Each answer has a constraint of its own. Used by one thread at a time; different ones by different threads.
///
/// For each token: apply() to the logits as the model gave them, before penalties, biases and temperature; choose a
/// token; if it ends the text (may_end() is true where a token of `end_tokens` was allowed), stop; else accept() it.
/// If is_finished() is true then, the text is complete and nothing can follow: stop without running the model again,
/// also where the caller ignores end tokens. A text that is cut at a limit of tokens may be incomplete.
class TokenConstraint {
 public:
  /// `constraint` has a kind other than none. Error invalid_input: it cannot be used; the message names the reason and
  /// the place. Takes milliseconds, at most a second.
  TokenConstraint(const TokenVocabulary& vocabulary, const OutputConstraint& constraint);
  ~TokenConstraint();
  TokenConstraint(TokenConstraint&&) noexcept;
  TokenConstraint& operator=(TokenConstraint&&) noexcept;

  /// A copy of the state, for another answer to the same prompt. The copies share what they learn about the constraint.
  [[nodiscard]] TokenConstraint clone() const;

  /// Sets the logits of tokens that cannot come next to minus infinity. `logits`: float32[vocabulary.logits()].
  /// At least one is left as it was. Error invalid_input: a step of this constraint is too complex, or the vocabulary
  /// has no token that continues the text; then the text cannot be continued.
  void apply(std::span<float> logits);

  /// Appends a token to the text. Error usage: it was not allowed; the state is as before.
  void accept(std::uint32_t token);

  /// Tokens of what must come next, where no other text has the form: as long as those of the vocabulary are, at most
  /// `most`, and without the last one, in whose place a longer token may go beyond that text. A model may spell the
  /// same text by other tokens. Empty where several texts are possible, and where that is not known. What it computes
  /// is used by apply().
  [[nodiscard]] std::vector<std::uint32_t> forced(std::size_t most);

  /// Whether the text so far has the form.
  [[nodiscard]] bool may_end() const;

  /// Whether it has, and no token can follow.
  [[nodiscard]] bool is_finished() const;

 private:
  struct State;
  explicit TokenConstraint(std::unique_ptr<State> state);
  [[nodiscard]] bool has(std::uint32_t flag) const;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::text
