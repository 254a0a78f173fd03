#pragma once

#include <cstdint>

/// Field numbers of the messages in onnx.proto3 and onnx-data.proto that gpux reads or writes.
namespace gpux::onnx::schema {

namespace model {
enum : std::uint32_t {
  ir_version = 1,
  producer_name = 2,
  producer_version = 3,
  domain = 4,
  model_version = 5,
  doc_string = 6,
  graph = 7,
  opset_import = 8,
  metadata_props = 14,
  functions = 25,
};
}

namespace opset {
enum : std::uint32_t { domain = 1, version = 2 };
}

namespace entry {
enum : std::uint32_t { key = 1, value = 2 };
}

namespace graph {
enum : std::uint32_t {
  node = 1,
  name = 2,
  initializer = 5,
  doc_string = 10,
  input = 11,
  output = 12,
  value_info = 13,
  sparse_initializer = 15,
};
}

namespace node {
enum : std::uint32_t { input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7 };
}

namespace attribute {
enum : std::uint32_t {
  name = 1,
  f = 2,
  i = 3,
  s = 4,
  t = 5,
  g = 6,
  floats = 7,
  ints = 8,
  strings = 9,
  tensors = 10,
  graphs = 11,
  type = 20,
  sparse_tensor = 22,
  sparse_tensors = 23,
};
}

namespace function {
enum : std::uint32_t { name = 1, input = 4, output = 5, node = 7, opset_import = 9, domain = 10, attribute_proto = 11 };
}

namespace value_info {
enum : std::uint32_t { name = 1, type = 2, doc_string = 3 };
}

namespace type {
enum : std::uint32_t {
  tensor = 1,
  sequence = 4,
  map = 5,
  opaque = 7,
  sparse_tensor = 8,
  optional = 9,
};
}

/// Fields of a tensor or sparse tensor type; sequences and optionals have only elem_type, which is a type.
namespace tensor_type {
enum : std::uint32_t { elem_type = 1, shape = 2 };
}

namespace map_type {
enum : std::uint32_t { key_type = 1, value_type = 2 };
}

namespace shape {
enum : std::uint32_t { dim = 1 };
}

namespace dimension {
enum : std::uint32_t { value = 1, parameter = 2 };
}

namespace tensor {
enum : std::uint32_t {
  dims = 1,
  data_type = 2,
  segment = 3,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  name = 8,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  doc_string = 12,
  external_data = 13,
  data_location = 14,
};
}

namespace sparse_tensor {
enum : std::uint32_t { values = 1, indices = 2, dims = 3 };
}

namespace sequence {
enum : std::uint32_t {
  name = 1,
  elem_type = 2,
  tensor_values = 3,
  sparse_tensor_values = 4,
  sequence_values = 5,
  map_values = 6,
  optional_values = 7,
};
}

namespace optional {
enum : std::uint32_t {
  name = 1,
  elem_type = 2,
  tensor_value = 3,
  sparse_tensor_value = 4,
  sequence_value = 5,
  map_value = 6,
  optional_value = 7,
};
}

/// Kinds of elements of a sequence or optional value (elem_type).
enum class ElementKind : std::uint32_t {
  undefined = 0,
  tensor = 1,
  sparse_tensor = 2,
  sequence = 3,
  map = 4,
  optional = 5,
};

}  // namespace gpux::onnx::schema
