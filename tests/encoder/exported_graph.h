#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gpux::test {

/// An ONNX model that can be changed node by node. What is not named here stays as it stands in the file.
struct ExportedGraph {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> dims;
    std::int64_t type = 0;  ///< TensorProto.DataType
    std::string raw;        ///< little-endian elements, where they stand in the graph
    std::string others;     ///< the other fields
  };

  struct Attribute {
    std::string name;
    std::optional<float> number;
    std::optional<std::int64_t> integer;
    std::vector<std::int64_t> integers;
    std::optional<Tensor> tensor;
    std::string others;
  };

  struct Node {
    std::vector<std::string> inputs, outputs;
    std::string name, type;
    std::vector<Attribute> attributes;
    std::string others;
  };

  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::string others_of_graph, others_of_model;
  std::vector<std::string> inputs, outputs;

  /// Of a file that scripts/references/encoder-exports wrote.
  static ExportedGraph read(const std::filesystem::path& compressed);

  /// As an ONNX file.
  [[nodiscard]] std::string bytes() const;
};

/// Writes the files of weights that such graphs name, from a generator of fixed numbers.
void write_weights(const std::filesystem::path& folder);

/// One change, told in a word; empty where this graph does not have what would be changed.
std::string mutate(ExportedGraph& graph, std::mt19937_64& random);

/// Other names for all values and nodes but the graph's own inputs and outputs, in another order.
void rename_and_reorder(ExportedGraph& graph, std::mt19937_64& random);

}  // namespace gpux::test
