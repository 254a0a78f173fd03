#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/machine.h"

namespace gpux {

/// A logical processor.
struct Processor {
  unsigned id = 0;    ///< the kernel's number
  unsigned core = 0;  ///< those of one core, SMT siblings, have one number: the lowest id among them
  unsigned node = 0;  ///< NUMA node
};

/// The processors that this process may use.
struct ProcessorFacts {
  std::vector<Processor> allowed;  ///< by affinity mask and cpuset, online, by id
  unsigned usable = 1;             ///< usable_processors(): fewer than `allowed` under a cgroup's quota
};

/// Reads the processors of this process from the kernel's files. `allowed` is empty if the system does not report them.
ProcessorFacts read_processors(const Machine& machine);

/// Threads that compute well at the same time: one for each core that may be used, as SMT siblings share its units, and
/// no more than the processors that a cgroup's quota allows. At least 1. Pure.
unsigned usable_cores(const ProcessorFacts& facts);

/// The same of this machine.
unsigned usable_cores(const Machine& machine);

/// The processors that one of several replicas computes on.
struct ProcessorShare {
  unsigned threads = 1;
  std::vector<unsigned> processors;  ///< by id, one for each thread; empty: not bound to any
};

/// Shares the processors out among `replicas`, 1 or more. Each gets as many threads as its part of the usable cores, at
/// least one. SMT siblings are left out, unless there are more replicas than cores. A replica's processors are of one
/// NUMA node where that has as many, and no processor has two replicas. Where a quota allows less than the cores that
/// may be used, or there are more replicas than processors, none is bound: the kernel knows better which are free.
/// Pure.
std::vector<ProcessorShare> share_processors(const ProcessorFacts& facts, unsigned replicas);

/// ONNX Runtime's session.intra_op_thread_affinities: of each thread but the first, which is the caller's, numbers from
/// 1. Empty where nothing is bound. Pure.
std::string intra_op_affinities(const ProcessorShare& share);

/// Binds the calling thread to the processors while it lives; does nothing with none.
class BoundThread {
 public:
  explicit BoundThread(const std::vector<unsigned>& processors);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  std::vector<unsigned> before_;
};

}  // namespace gpux
