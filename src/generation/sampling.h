#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "generation/settings.h"

namespace gpux::generation {

/// Steps from the logits of a position, float32[vocabulary], to its token. They change the logits in place, in this
/// order: penalties and biases, temperature, top_k, top_p, min_p, typical_p. A token that is left out has the logit
/// minus infinity. The steps are those of transformers' logits processors of the same names; presence and frequency
/// penalties are OpenAI's.

/// The tokens that a prompt and its text have so far, each once. Kept as they come: what is done with them at each step
/// costs what there are different ones.
class TokenCounts {
 public:
  struct Entry {
    std::uint32_t token = 0;
    std::uint32_t generated = 0;  ///< how often the text has it, the prompt not counted
    std::size_t last = 0;         ///< its last position in the prompt and the text

    bool operator==(const Entry&) const = default;
  };

  void add_prompt(std::span<const std::uint32_t> tokens);
  void add_generated(std::uint32_t token);

  /// Tokens of the prompt and the text.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// All entries, in the order in which they were added.
  [[nodiscard]] std::span<const Entry> entries() const noexcept { return entries_; }

 private:
  Entry& entry_of(std::uint32_t token);

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> places_;
};

/// Whether the steps depend on TokenCounts.
[[nodiscard]] bool counts_tokens(const Sampling& sampling) noexcept;
[[nodiscard]] bool has_penalties(const Sampling& sampling) noexcept;
void apply_penalties(std::span<float> logits, const TokenCounts& counts, const Sampling& sampling);

/// Tokens of equal logits at the border are all kept.
void keep_top_k(std::span<float> logits, std::uint32_t k);
void keep_top_p(std::span<float> logits, float p);
void keep_min_p(std::span<float> logits, float p);
void keep_typical(std::span<float> logits, float p);

/// The highest logit's token, the first of several. NaN is never the highest.
std::uint32_t greedy_token(std::span<const float> logits);

/// A token by its probability, from `share` in [0, 1): the first at which the sum of the probabilities in the order of
/// the tokens exceeds it.
std::uint32_t token_at(std::span<const float> logits, double share);

/// A number in [0, 1) for the position of a text: the same for the same seed, whatever else is generated.
double share_of(std::uint64_t seed, std::uint64_t position);

/// All of it, for the token at a position of the text. `logits` are changed. `counts` may be empty unless
/// counts_tokens().
std::uint32_t choose_token(std::span<float> logits, const TokenCounts& counts, std::uint64_t position,
                           const Sampling& sampling);

}  // namespace gpux::generation
