#pragma once

#include <chrono>
#include <cstddef>
#include <span>

namespace gpux::runtime {

/// A replica that could take the next run.
struct FreeReplica {
  std::size_t running = 0;             ///< runs now on its device, by its other replicas
  std::chrono::nanoseconds recent{0};  ///< how long runs on its device have lately taken; 0: not known
};

/// Which of them takes it, 1 or more: one of the device with the fewest runs; of several devices the one that is
/// fastest, or not known yet; of several replicas the last. Pure.
std::size_t choose_replica(std::span<const FreeReplica> free) noexcept;

}  // namespace gpux::runtime
