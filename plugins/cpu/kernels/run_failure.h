#pragma once

#include <stdexcept>

namespace gpux_cpu {

/// The inputs of a run do not fit the model or each other: one line that names the value and what would be accepted.
class InvalidInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A run was stopped by its caller.
struct Stopped {};

}  // namespace gpux_cpu
