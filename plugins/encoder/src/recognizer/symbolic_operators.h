#pragma once

#include <optional>
#include <vector>

#include "recognizer/symbolic_tensor.h"

/// ONNX operators on symbolic tensors, for symbolic_tensor.cpp. The first input of each is given; others may be null or
/// missing. Empty where the output is not known.
namespace gpux_encoder::symbolic {

using Inputs = std::vector<const Field*>;

constexpr std::int64_t max_elements_of_a_list = 64;

Size number_size(std::int64_t number);
bool is_one(const Size& size);

/// The places along all axes of a tensor.
std::vector<ExpressionPointer> places_of(std::size_t rank);

/// Null where it is missing.
const Field* input(const Inputs& inputs, std::size_t index);

/// Axes, from an input or from the attribute of older versions.
std::optional<std::vector<std::int64_t>> axes_of(const Node& node, const Inputs& inputs, std::size_t index);

std::optional<Field> elementwise(const Node& node, const Inputs& inputs);
std::optional<Field> turned_comparison(const Node& node, const Inputs& inputs);
std::optional<Field> where(const Node& node, const Inputs& inputs);
std::optional<Field> cast(const Node& node, const Inputs& inputs);
std::optional<Field> clip(const Node& node, const Inputs& inputs);

std::optional<Field> gather(const Node& node, const Inputs& inputs);
std::optional<Field> gather_elements(const Node& node, const Inputs& inputs);
std::optional<Field> gather_places(const Node& node, const Inputs& inputs);
std::optional<Field> slice(const Node& node, const Inputs& inputs);

std::optional<Field> unsqueeze(const Node& node, const Inputs& inputs);
std::optional<Field> squeeze(const Node& node, const Inputs& inputs);
std::optional<Field> transpose(const Node& node, const Inputs& inputs);
std::optional<Field> expand(const Node& node, const Inputs& inputs);
std::optional<Field> reshape(const Node& node, const Inputs& inputs);
std::optional<Field> flatten(const Node& node, const Inputs& inputs);

std::optional<Field> concat(const Node& node, const Inputs& inputs);
std::optional<Field> same_everywhere(const Node& node, const Inputs& inputs);
std::optional<Field> range(const Node& node, const Inputs& inputs);
std::optional<Field> cumulate(const Node& node, const Inputs& inputs);

}  // namespace gpux_encoder::symbolic
