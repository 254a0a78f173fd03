#include "runtime/pinned_replica.h"

#include <sched.h>

namespace gpux::runtime {

PinnedReplica::PinnedReplica(std::unique_ptr<Replica> inner, int processor)
    : inner_(std::move(inner)), processor_(processor) {}

NamedValues PinnedReplica::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) {
  thread_local int bound_to = -1;
  if (bound_to != processor_) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor_, &set);
    // Where the system refuses, it runs all the same, wherever it is put.
    if (::sched_setaffinity(0, sizeof set, &set) == 0) bound_to = processor_;
  }
  return inner_->run(inputs, outputs);
}

void PinnedReplica::stop() {
  inner_->stop();
}

std::vector<int> bindable_processors() {
  std::vector<int> processors;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

}  // namespace gpux::runtime
