#include "generation/prompt_lookup.h"

#include <algorithm>

namespace gpux::generation {
namespace {

// Earlier occurrences that are looked at, and tokens of each that are compared: a bound of the work for a token.
constexpr std::size_t most_occurrences = 16, most_compared = 32;

// Of the tokens that end before `end`.
std::uint64_t hash_of(std::span<const std::uint32_t> tokens, std::size_t end) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::uint32_t token : tokens.subspan(end - PromptLookup::least_match, PromptLookup::least_match)) {
    hash = (hash ^ token) * 0x100000001b3;
  }
  return hash;
}

// Tokens that are the same before both ends.
std::size_t common_tokens(std::span<const std::uint32_t> tokens, std::size_t a, std::size_t b) {
  std::size_t common = 0;
  while (common < std::min({a, b, most_compared}) && tokens[a - common - 1] == tokens[b - common - 1]) ++common;
  return common;
}

}  // namespace

// Ends are counted from 1, so that 0 is none.
void PromptLookup::read(std::span<const std::uint32_t> tokens) {
  earlier_.resize(tokens.size() + 1);
  for (std::size_t end = std::max(read_ + 1, least_match); end <= tokens.size(); ++end) {
    std::uint32_t& latest = latest_[hash_of(tokens, end)];
    earlier_[end] = latest;
    latest = static_cast<std::uint32_t>(end);
  }
  read_ = tokens.size();
}

std::vector<std::uint32_t> PromptLookup::guess(std::span<const std::uint32_t> tokens, std::size_t most) {
  if (read_ == 0 && tokens.size() > max_prompt) read_ = tokens.size() - max_prompt;
  if (tokens.size() > read_) read(tokens);
  const std::size_t end = tokens.size();
  if (end < least_match || most == 0) return {};
  std::size_t best = 0, common = least_match - 1, looked_at = 0;
  for (std::size_t place = earlier_[end]; place != 0 && looked_at < most_occurrences; place = earlier_[place]) {
    ++looked_at;
    const std::size_t here = common_tokens(tokens, place, end);
    if (here <= common) continue;
    common = here;
    best = place;
    if (common == most_compared) break;
  }
  std::vector<std::uint32_t> guessed;
  if (best == 0) return guessed;
  // Behind the end of the text, the guess repeats itself.
  for (std::size_t i = best; guessed.size() < most; ++i) guessed.push_back(i < end ? tokens[i] : guessed[i - end]);
  return guessed;
}

}  // namespace gpux::generation
