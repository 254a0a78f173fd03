#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "gpux/tensor.h"

namespace gpux::runtime {

/// A number for the names, types and sizes of the inputs, and the outputs asked for; empty where those do not tell how
/// much there is to do (strings, sequences, maps). Others have the same number by chance alone.
std::optional<std::uint64_t> size_key(const NamedValues& inputs, std::span<const std::size_t> outputs) noexcept;

/// How long runs have lately taken, by size_key. Not thread-safe.
class RunTimes {
 public:
  /// A longer time counts at once; a shorter one brings the known time down by a part of the difference, so that what
  /// is slow now and then stays slow.
  void add(std::uint64_t key, std::chrono::nanoseconds time);

  /// Whether such runs are known and take less than `bound`.
  [[nodiscard]] bool are_below(std::uint64_t key, std::chrono::nanoseconds bound) const noexcept;

 private:
  std::unordered_map<std::uint64_t, std::chrono::nanoseconds> times_;
};

}  // namespace gpux::runtime
