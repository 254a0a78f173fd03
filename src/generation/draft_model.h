#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generation/decoder.h"
#include "gpux/runtime.h"
#include "text/tokenizer.h"

namespace gpux::generation {

/// A small decoder that guesses what another one, the model, generates: as it is loaded.
struct DraftSource {
  std::string name;
  Runtime runtime;
  text::Tokenizer tokenizer;
  std::size_t context_length = 0;  ///< tokens
  bool is_always_used = false;     ///< in each step, whether it pays or not: for tests, which depend on no times

  /// For the guesses of a step in a worker process, and again for each `tokens_of_patience` of a prompt's part: what
  /// takes longer hangs, and is stopped.
  std::chrono::milliseconds patience{10'000};
  static constexpr std::size_t tokens_of_patience = 256;
};

/// Error usage: the decoder, `role` in the message, cannot compute guessed tokens with the one before them. `name`: of
/// the draft model.
void require_runs_ahead(const Decoder& decoder, std::string_view role, const std::string& name);

/// A text for which a draft model guesses.
struct DraftedText {
  std::size_t slot = 0;
  std::span<const std::uint32_t> tokens;  ///< all that it has
  std::size_t most = 0;                   ///< guesses, up to max_drafted; 0: it is in a slot between others

  /// The token that the text would choose by these logits behind the tokens guessed so far, float32[vocabulary] of the
  /// draft model; empty: none can be guessed.
  std::function<std::optional<std::uint32_t>(std::span<const float> logits)> choose;
};

/// A decoder that guesses the tokens of another one, with keys and values of its own in slots of the same numbers. They
/// hold the first tokens of what the model's slots hold. Not thread-safe, but for stop().
class DraftModel {
 public:
  /// Errors usage: it has other tokens than the model, or runs where it cannot guess for several texts; of Decoder.
  DraftModel(DraftSource source, const text::Tokenizer& model, std::size_t slots);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return decoder_.runtime(); }

  [[nodiscard]] Decoder& decoder() noexcept { return decoder_; }

  [[nodiscard]] std::uint64_t bytes_per_token() const noexcept { return decoder_.signature().cache.bytes_per_token(); }

  /// Whether it has an embedding of each token, and positions for these and guesses behind them.
  [[nodiscard]] bool can_continue(std::span<const std::uint32_t> tokens) const noexcept;

  /// Tokens whose keys and values the slot has.
  [[nodiscard]] std::size_t size(std::size_t slot) const noexcept { return sizes_[slot]; }

  /// Reads tokens behind those of the slot. Errors of Decoder::run(): the slot is as before.
  void read(std::size_t slot, std::span<const std::uint32_t> tokens);

  /// The guesses for each text, and how many steps it took. The texts are in slots next to each other, in order; those
  /// with guesses can_continue(), and have been read but for max_drafted tokens. Errors as read().
  struct Guesses {
    std::vector<std::vector<std::uint32_t>> tokens;
    std::size_t steps = 0;
  };

  [[nodiscard]] Guesses guess(std::span<const DraftedText> texts);

  /// The first `guesses` of the last guess() for the slot, which have run, are tokens of its text now.
  void accept(std::size_t slot, std::size_t guesses) noexcept { sizes_[slot] += guesses; }

  /// What the engine does with the slots of the model.
  void copy(std::size_t from, std::size_t to, std::size_t tokens);
  void exchange(std::size_t a, std::size_t b) noexcept;
  /// The slot holds the first `tokens` at most.
  void cut(std::size_t slot, std::size_t tokens) noexcept;

 private:
  void reserve(std::size_t tokens);
  [[nodiscard]] std::vector<std::optional<std::uint32_t>> run_first(std::span<const DraftedText> texts);
  [[nodiscard]] std::vector<std::optional<std::uint32_t>> run_next(std::span<const DraftedText> texts,
                                                                   std::span<const std::vector<std::uint32_t>> guesses,
                                                                   const std::vector<bool>& has_ended);

  std::string name_;
  Decoder decoder_;
  std::size_t context_length_, vocabulary_ = 0;
  std::vector<std::size_t> sizes_;
};

}  // namespace gpux::generation
