#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::onnx {

/// A size of an input or output: a number, or the name of a free one.
using WrittenSize = std::variant<std::int64_t, std::string>;

/// An attribute of a node: integer, float, text, or a list of integers.
using AttributeValue = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

/// The elements of a constant: float32, bytes, or the bit patterns of float16 or bfloat16.
using ConstantElements = std::variant<std::vector<float>, std::vector<std::uint8_t>, std::vector<std::uint16_t>>;

/// Makes them, when the file is written.
using ConstantSource = std::function<ConstantElements()>;
using FloatSource = std::function<std::vector<float>()>;

/// An ONNX model of one graph in the making. Nodes go in the order in which they run. Names of values that are not
/// given are made up.
class GraphWriter {
 public:
  /// Names that are made up begin with `prefix`.
  explicit GraphWriter(std::string_view name, std::string_view prefix = {});

  void input(std::string_view name, ElementType type, std::span<const WrittenSize> sizes);
  void output(std::string_view name, ElementType type, std::span<const WrittenSize> sizes);

  /// A constant; the elements are copied. Returns its name.
  std::string floats(std::string_view name, std::span<const float> elements, const Shape& shape);
  /// Large constants: `source` is called once, by write(), which holds one such constant at a time. It gives
  /// as many elements as `shape` has.
  std::string floats(std::string_view name, const Shape& shape, FloatSource source);
  std::string constant(std::string_view name, ElementType type, const Shape& shape, ConstantSource source);
  std::string integers(std::span<const std::int64_t> elements);  ///< a list
  std::string integer(std::int64_t value);                       ///< an integer constant without dimensions
  std::string scalar(float value);

  /// A node of ONNX's own domain with one output, whose name is returned.
  std::string node(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes = {},
                   std::string_view output = {});

  /// A node of ONNX Runtime's own operators, domain com.microsoft. Empty inputs are left out. Names of the outputs are
  /// given.
  void contributed_node(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes,
                        const std::vector<std::string>& outputs);

  /// A node with the attributes of another node, AttributeProtos.
  void contributed_node(std::string_view type, const std::vector<std::string>& inputs,
                        std::span<const std::string_view> attributes, const std::vector<std::string>& outputs);

  /// A node of another domain, which the model imports by itself.
  void node_of(std::string_view domain, std::string_view type, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs);

  /// Adds a contributed_node() with one output, and returns its name.
  std::string contributed_value(std::string_view type, const std::vector<std::string>& inputs,
                                const Attributes& attributes, std::string_view output = {});

  /// Writes the model, replacing the file as a whole. Nothing may be added afterwards. Where it would be larger than
  /// the 2 GB of an ONNX file, or than `max_file_bytes`, constants with a source are written to FILE_data beside it, as
  /// external data. Errors storage, permission, and those of the sources.
  void write(const std::filesystem::path& file, std::int64_t opset, std::int64_t ir_version,
             std::uint64_t max_file_bytes = max_model_bytes) const;

  /// The model, without constants that have a source: for small ones that are not kept in a file.
  [[nodiscard]] std::string model(std::int64_t opset, std::int64_t ir_version) const;

  /// The graph's fields so far, without constants that have a source: to be merged into another graph.
  [[nodiscard]] const std::string& fields() const noexcept { return graph_; }

  static constexpr std::uint64_t max_model_bytes = 0x7fff'ffff;  ///< maximum size of a protobuf message

 private:
  std::string made_up(std::string_view stem);
  [[nodiscard]] std::string head(std::int64_t opset, std::int64_t ir_version) const;
  void write_node(std::string_view type, std::string_view domain, const std::vector<std::string>& inputs,
                  const Attributes& attributes, const std::vector<std::string>& outputs);
  void value(std::uint32_t field, std::string_view name, ElementType type, std::span<const WrittenSize> sizes);
  void tensor(std::string_view name, ElementType type, std::span<const std::byte> bytes, const Shape& shape);

  /// A constant that write() gets from its source.
  struct SourcedTensor {
    std::size_t position;  // in graph_: before which byte it goes
    std::string header;    // of the TensorProto, all but the data
    std::uint64_t byte_size;
    ConstantSource source;
  };

  std::string prefix_;
  std::string graph_;  // the message so far, without the sourced constants
  std::vector<SourcedTensor> sourced_;
  std::size_t count_ = 0;
  bool has_contributed_nodes_ = false;
};

}  // namespace gpux::onnx
