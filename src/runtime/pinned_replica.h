#pragma once

#include <memory>
#include <vector>

#include "runtime/scheduler.h"

namespace gpux::runtime {

/// Runs on one processor: the thread that runs it is bound to it, and stays bound until it runs another one.
class PinnedReplica : public Replica {
 public:
  PinnedReplica(std::unique_ptr<Replica> inner, int processor);

  NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) override;
  void stop() override;

 private:
  std::unique_ptr<Replica> inner_;
  int processor_;
};

/// Numbers of the processors that this process may be bound to. Empty where that cannot be told.
std::vector<int> bindable_processors();

}  // namespace gpux::runtime
