#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace gpux_cpu::decoder {

/// Why a graph is no decoder. Stays within recognize().
struct NotRecognized : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A graph by its values, and the nodes that were understood so far. Constants that others are reshaped to or cast to
/// float32 are constants, too.
class GraphIndex {
 public:
  using Owned = std::deque<std::pair<Constant, std::vector<float>>>;

  explicit GraphIndex(const Graph& graph);

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// The node that makes the value; null for inputs and constants.
  [[nodiscard]] const Node* producer(std::string_view value) const;
  /// The node that makes the value, if it is of this type ("MatMul", "com.microsoft.MatMulNBits"), and the value its
  /// first output.
  [[nodiscard]] const Node* producer(std::string_view value, std::string_view type) const;

  [[nodiscard]] const Constant* constant(const std::string& value);
  /// A constant of float32; or, where that is made of float16 or bfloat16 for the value, the constant of 16 bits.
  [[nodiscard]] const Constant* weights(const std::string& value);
  /// A constant of one number.
  [[nodiscard]] std::optional<float> scalar(const std::string& value);
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(const std::string& value);

  /// The nodes that what was recognised consists of.
  void understand(const Node* node) { understood_.insert(node); }

  [[nodiscard]] std::vector<std::size_t> understood() const;

  [[nodiscard]] bool is_understood(const Node& node) const { return understood_.contains(&node); }

  /// "Einsum 'node_einsum' is not understood", for what makes the value.
  [[nodiscard]] NotRecognized not_understood(const std::string& value) const;

  [[nodiscard]] const std::shared_ptr<Owned>& owned() const noexcept { return owned_; }

 private:
  const Constant* derived_constant(const std::string& value);
  /// The constant of 16 bits that the node makes float32 of; null: it does something else.
  [[nodiscard]] const Constant* widened_by(const Node& node) const;

  const Graph& graph_;
  std::map<std::string, const Node*, std::less<>> producers_;
  std::map<std::string, const Constant*, std::less<>> derived_;
  std::set<const Node*> understood_;
  std::shared_ptr<Owned> owned_;
};

/// Whether its elements are float16 or bfloat16.
constexpr bool has_small_floats(const Constant& constant) noexcept {
  return constant.element_type == ElementType::float16 || constant.element_type == ElementType::bfloat16;
}

/// The elements of a constant that has_small_floats(), as float32.
std::vector<float> widened(const Constant& constant);

/// The input, "" where there is none.
const std::string& input_of(const Node& node, std::size_t index);
std::int64_t integer_of(const Node& node, std::string_view attribute, std::int64_t otherwise);
float number_of(const Node& node, std::string_view attribute, float otherwise);

}  // namespace gpux_cpu::decoder
