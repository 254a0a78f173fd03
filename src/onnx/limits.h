#pragma once

#include <cstddef>

/// What no real model comes near, so that a hostile one cannot take the stack or the memory.
namespace gpux::onnx {

constexpr unsigned deepest_nesting = 64;
constexpr std::size_t most_dimensions = 1024;
constexpr std::size_t most_inputs_or_outputs = 65536;
constexpr std::size_t most_distinct_names = 65536;  ///< of operators, external files, …

}  // namespace gpux::onnx
