#include "runtime/scheduling/replica_choice.h"

#include <tuple>

namespace gpux::runtime {

std::size_t choose_replica(std::span<const FreeReplica> free) noexcept {
  std::size_t best = 0;
  for (std::size_t i = 1; i < free.size(); ++i) {
    const FreeReplica& one = free[i];
    if (std::tie(one.running, one.recent) <= std::tie(free[best].running, free[best].recent)) best = i;
  }
  return best;
}

}  // namespace gpux::runtime
