#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpux/tensor.h"

namespace gpux {

/// One dimension of a declared shape: a fixed size, or free, with or without a name.
struct Dimension {
  std::optional<std::int64_t> size;  ///< empty: free, decided at run time
  std::string name;                  ///< ONNX's dim_param ("batch"), may be empty

  bool operator==(const Dimension&) const = default;
};

/// The kind of value of an input or output. `opaque`: one of a type of its own, which gpux does not run.
enum class ValueKind : std::uint8_t { tensor, sparse_tensor, sequence, map, optional, opaque };

/// The type of an input or output.
struct ValueType {
  ValueKind kind = ValueKind::tensor;
  ElementType element = ElementType::undefined;      ///< tensor; key type for maps
  std::optional<std::vector<Dimension>> dimensions;  ///< tensor; empty if the rank is unknown
  std::vector<ValueType> inner;                      ///< element of a sequence or optional, value of a map

  bool operator==(const ValueType&) const = default;
};

/// "float32[batch, 3, 224, 224]", "sequence(int64[?])", "map(string, float32)"
GPUX_API std::string to_string(const ValueType& type);

/// One input or output of a model.
struct SignatureEntry {
  std::string name;
  ValueType type;
  bool required = true;  ///< false: has a default (an initializer of that name) or is an optional
  std::string description;
};

/// The inputs and outputs of a model, in the file's order.
struct Signature {
  std::vector<SignatureEntry> inputs;
  std::vector<SignatureEntry> outputs;
};

/// A file next to the model that contains weights.
struct ExternalFile {
  std::string location;     ///< as written in the model, relative to its folder
  std::uint64_t bytes = 0;  ///< size of the data that the model refers to
  bool present = false;     ///< the file exists and is long enough
};

/// The content of an ONNX file, read without creating a session.
struct ModelInfo {
  std::string name;     ///< file stem, or the package's name
  std::string version;  ///< the package's version; "1.0.0" without one
  std::string format = "onnx";
  std::filesystem::path path;
  std::uint64_t size_bytes = 0;  ///< size of the .onnx file, without external data

  Signature signature;
  std::int64_t ir_version = 0;
  std::vector<std::pair<std::string, std::int64_t>> opsets;  ///< domain ("" is ai.onnx), version
  std::string producer_name, producer_version, domain, graph_name, description;
  std::int64_t model_version = 0;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::map<std::string, std::uint64_t>
      operators;  ///< "Conv" or "domain::Name" -> nodes, subgraphs and functions included
  std::uint64_t node_count = 0;
  std::uint64_t parameter_count = 0;
  std::uint64_t parameter_bytes = 0;
  std::map<std::string, std::uint64_t> parameter_types;  ///< element type -> parameters
  std::vector<ExternalFile> external_files;

  /// Size of the .onnx file and of the external data that it refers to.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept {
    std::uint64_t bytes = size_bytes;
    for (const ExternalFile& file : external_files) bytes += file.bytes;
    return bytes;
  }
};

}  // namespace gpux
