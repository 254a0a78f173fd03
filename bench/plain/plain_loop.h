#pragma once

#include <filesystem>
#include <memory>

#include "gpux/tensor.h"

namespace gpux::bench {

/// The loop of somebody who uses ONNX Runtime's C++ interface well: one session, names and input tensors made once over
/// the caller's memory, results read where ONNX Runtime put them.
class PlainLoop {
 public:
  /// `core` is the ONNX Runtime library that gpux has opened; `inputs` must be float32 tensors and outlive the loop.
  PlainLoop(const std::filesystem::path& core, const std::filesystem::path& model, unsigned threads,
            const NamedValues& inputs);
  ~PlainLoop();

  /// One run; the sum of the first and the last element of the first output, so that it is read.
  float run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::bench
