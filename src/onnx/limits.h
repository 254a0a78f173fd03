#pragma once

#include <cstddef>

/// What no real model comes near, so that a hostile one cannot take the stack or the memory.
namespace gpux::onnx {

constexpr unsigned deepest_nesting = 64;
constexpr std::size_t max_dimensions = 256;
constexpr std::size_t max_inputs_or_outputs = 16384;
constexpr std::size_t max_distinct_names =
    65536;  ///< maximum number of distinct names: operators, external files, opsets, metadata

}  // namespace gpux::onnx
