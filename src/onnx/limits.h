#pragma once

#include <cstddef>

/// Limits far above those of real models, so that a hostile file cannot exhaust stack or memory.
namespace gpux::onnx {

constexpr unsigned deepest_nesting = 64;
constexpr std::size_t max_dimensions = 256;
constexpr std::size_t max_inputs_or_outputs = 16384;
constexpr std::size_t max_distinct_names =
    65536;  ///< maximum number of distinct names: operators, external files, opsets, metadata

}  // namespace gpux::onnx
