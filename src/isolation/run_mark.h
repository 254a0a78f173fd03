#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

/// The beginning of the memory for the inputs of runs: the number of the last run that the worker has taken. What a
/// worker that ended had not taken was never begun, and can be repeated.
namespace gpux::isolation {

/// Before the values, which are aligned to it.
inline constexpr std::size_t run_mark_bytes = 64;

/// Called by the worker when it takes the run, before anything else.
inline void mark_taken(std::span<std::byte> memory, std::uint64_t run) noexcept {
  static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data())).store(run, std::memory_order_release);
}

/// Certain once the worker has ended: until then it may still take the run.
inline bool has_taken(std::span<std::byte> memory, std::uint64_t run) noexcept {
  if (memory.size() < run_mark_bytes) return false;
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data())).load(std::memory_order_acquire) == run;
}

}  // namespace gpux::isolation
