#pragma once

#include <optional>
#include <vector>

#include "recognizer/symbolic_tensor.h"

/// ONNX operators on symbolic tensors, for symbolic_tensor.cpp. The first input of each is given; others may be null or
/// missing. Empty where the output is not known.
namespace gpux_cpu::encoder::symbolic {

using Inputs = std::vector<const SymbolicTensor*>;

constexpr std::int64_t max_elements_of_a_list = 64;

bool is_one(const Dimension& size);

/// The indices along all axes of a tensor.
std::vector<ExpressionPointer> axis_indices(std::size_t rank);

/// The input at `index`; null if it is missing.
const SymbolicTensor* input(const Inputs& inputs, std::size_t index);

/// Axes, from an input or from the attribute of older versions.
std::optional<std::vector<std::int64_t>> axes_of(const Node& node, const Inputs& inputs, std::size_t index);

std::optional<SymbolicTensor> elementwise(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> relu(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> swapped_comparison(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> where(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> cast(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> clip(const Node& node, const Inputs& inputs);

std::optional<SymbolicTensor> gather(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> gather_elements(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> gather_nd(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> slice(const Node& node, const Inputs& inputs);

std::optional<SymbolicTensor> unsqueeze(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> squeeze(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> transpose(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> expand(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> reshape(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> flatten(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> tile(const Node& node, const Inputs& inputs);

std::optional<SymbolicTensor> concat(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> constant_of_shape(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> range(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> trilu(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> outer_product(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> einsum(const Node& node, const Inputs& inputs);
std::optional<SymbolicTensor> cumsum(const Node& node, const Inputs& inputs);

}  // namespace gpux_cpu::encoder::symbolic
