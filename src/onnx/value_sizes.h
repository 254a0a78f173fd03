#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx/message.h"
#include "onnx/node_text.h"

namespace gpux::onnx {

/// The sizes of a value: numbers, and symbols for what only a run decides. Symbols are negative. Equal symbols are
/// equal in every run.
using Sizes = std::vector<std::int64_t>;

/// Sizes and constants of a graph's values that are known before it runs.
struct KnownValues {
  std::unordered_map<std::string_view, Sizes> sizes;     ///< without values of unknown rank
  std::unordered_map<std::string_view, Sizes> integers;  ///< the elements of constants of int64 within the model
  std::unordered_map<std::string_view, float> scalars;   ///< constants of float32 with one element
};

/// Follows the sizes from the inputs and constants through the operators that transformers have; nothing is known of
/// what other operators make. Inputs whose sizes have the same name have the same sizes. Subgraphs are not followed.
/// `nodes` are those of the graph. Error MalformedMessage. Pure.
KnownValues known_values(Message graph, std::span<const NodeText> nodes);

/// The elements of a list attribute; none where the node does not have it.
std::optional<Sizes> integers_attribute(const NodeText& node, std::string_view name);

}  // namespace gpux::onnx
