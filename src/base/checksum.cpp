#include "base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace gpux {
namespace {

// Odd, so that each step can be undone: what differs stays different. Two of them, so that a bit changes many.
constexpr std::uint64_t factor = 0x9e3779b97f4a7c15, second_factor = 0xbf58476d1ce4e5b9;
constexpr int turn = 29;
constexpr std::size_t lanes = 4;

std::uint64_t mixed(std::uint64_t state, std::uint64_t word) noexcept {
  return std::rotl((state ^ word) * factor, turn) * second_factor;
}

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  std::array<std::uint64_t, lanes> states{1, 2, 3, 4};
  const std::size_t size = bytes.size();
  std::array<std::uint64_t, lanes> words{};
  for (; bytes.size() >= sizeof words; bytes = bytes.subspan(sizeof words)) {
    std::memcpy(words.data(), bytes.data(), sizeof words);
    for (std::size_t i = 0; i < lanes; ++i) states[i] = mixed(states[i], words[i]);
  }
  if (!bytes.empty()) {
    words = {};
    std::memcpy(words.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < lanes; ++i) states[i] = mixed(states[i], words[i]);
  }
  std::uint64_t sum = size;
  for (const std::uint64_t state : states) sum = mixed(sum, state);
  return sum;
}

}  // namespace gpux
