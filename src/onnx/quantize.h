#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::onnx {

struct QuantizeOptions {
  bool reduce_range = false;                      ///< weights of 7 bits: for processors that add products in 16 bits
  std::set<std::string, std::less<>> left_alone;  ///< nodes that keep their weights, by QuantizedNode::name
};

/// A node that has weights.
struct QuantizedNode {
  std::string name;           ///< its own, or its first output's where it has none or shares it
  std::string operator_type;  ///< "MatMul"
  std::string weights;        ///< name of the constant
  std::string reason;         ///< why it was left alone, one clause; empty where it was quantized
};

/// A model with weights of 8 bits, and what became of what.
struct QuantizedModel {
  std::string head;                                  ///< beginning of the ModelProto, all but the graph's own bytes
  std::string graph;                                 ///< its GraphProto, the last field of the model
  std::vector<QuantizedNode> quantized, left_alone;  ///< in the order of the graph
  std::uint64_t weight_bytes_before = 0, weight_bytes_after = 0;  ///< bytes of all initializers of the main graph

  /// Replaces the file as a whole or not at all. Errors storage, permission.
  void write(const std::filesystem::path& file) const;
};

/// Dynamic int8, as ONNX Runtime's quantize_dynamic makes it and its optimizer fuses it:
/// - MatMul and Gemm with constant weights, float32 of two dimensions: the input through DynamicQuantizeLinear, once
///   for all that share it; MatMulInteger with signed weights, a scale for each column; Cast, Mul, and Gemm's Add.
/// - Gather from a constant float32 table of at least 16 rows: rows of signed bytes and their scales are gathered, and
///   multiplied.
/// Inputs and outputs stay unchanged. Unused weights are removed, external ones are included. Nodes that are not
/// quantized are reported with the reason: other types, weights of more or fewer dimensions, with NaN or infinities,
/// that the caller may replace, that another node makes, nodes in subgraphs. Pure but for reading files beside `path`,
/// where the content stands. Errors invalid_model as inspect(), and where the opset is below 11 or the result would be
/// beyond the 2 GB of an ONNX file.
QuantizedModel quantize(std::string_view content, const std::filesystem::path& path, const QuantizeOptions& options);

/// Quantizes a file. Errors as MappedFile besides.
QuantizedModel quantize(const std::filesystem::path& path, const QuantizeOptions& options);

}  // namespace gpux::onnx
