#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Functions that a load writes into a model in memory: a provider may take their nodes as they are, and where none
/// does, ONNX Runtime computes their bodies.
namespace gpux::onnx {

/// Whether operators of the domain are such functions. A model's file has none of them.
bool is_domain_of_functions(std::string_view domain) noexcept;

/// The version of ONNX's own operators in a ModelProto without its graph, `head`, which functions of that domain may be
/// added to; none: it is of an operator set before 13 or a version of the format before 8, or has operators of that
/// domain. Error MalformedMessage.
std::optional<std::int64_t> opset_for_functions(std::string_view head, std::string_view domain);

/// A function of one input and one output; `nodes` are fields of a graph.
struct ModelFunction {
  std::string_view domain, name, input, output, nodes;
};

/// Appends it to the head of a model of that operator set.
void append_function(std::string& head, const ModelFunction& function, std::int64_t opset);

/// Appends that the model has operators of the domain.
void append_domain(std::string& head, std::string_view domain);

}  // namespace gpux::onnx
