#pragma once

#include <atomic>
#include <cstdint>

namespace gpux::embedding {

/// Where the time of embed_all() goes: nanoseconds of processor time, added up over its threads. Thread-safe.
struct EmbedTimes {
  std::atomic<std::uint64_t> texts = 0;
  std::atomic<std::uint64_t> read = 0;     ///< in the source: one thread at a time
  std::atomic<std::uint64_t> prepare = 0;  ///< tokenizing
  std::atomic<std::uint64_t> run = 0;      ///< runs of the model, and what is made of their outputs
  std::atomic<std::uint64_t> sink = 0;     ///< in the sink: one thread at a time
  std::atomic<std::uint64_t> locked = 0;   ///< the lock that the threads share was held
  std::atomic<std::uint64_t> locks = 0;    ///< how often
  std::atomic<std::uint64_t> longest_lock = 0;
};

}  // namespace gpux::embedding
