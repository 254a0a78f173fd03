#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace gpux::generation {

/// Guesses the tokens that continue a text by what followed the same tokens earlier in it: quotes, edited code, tables.
/// Source: prompt lookup decoding (Saxena 2023), as transformers' prompt_lookup_num_tokens. Not thread-safe.
class PromptLookup {
 public:
  /// The tokens that must be the same for a guess.
  static constexpr std::size_t least_match = 3;
  /// Of a longer prompt the last so many are looked at: some forty bytes are kept for each.
  static constexpr std::size_t max_prompt = std::size_t{1} << 15;

  /// What follows the last tokens at the place where most of the tokens before are the same, the latest of several; at
  /// most `most` tokens. Empty: the last tokens are new. `tokens`: those of the call before, and any number behind
  /// them.
  [[nodiscard]] std::vector<std::uint32_t> guess(std::span<const std::uint32_t> tokens, std::size_t most);

 private:
  void read(std::span<const std::uint32_t> tokens);

  std::unordered_map<std::uint64_t, std::uint32_t> latest_;  // end of the latest occurrence, by the hash of its tokens
  std::vector<std::uint32_t> earlier_;  // of the one that ends at a place, the occurrence before it
  std::size_t read_ = 0;                // tokens that have been read
};

}  // namespace gpux::generation
