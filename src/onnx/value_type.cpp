#include "onnx/value_type.h"

#include <fmt/format.h>

#include "onnx/limits.h"
#include "onnx/schema.h"
#include "onnx/text.h"

namespace gpux::onnx {
namespace {

Dimension read_dimension(Message message) {
  Dimension dimension;
  while (message.next()) {
    if (message.field() == schema::dimension::value) {
      const std::int64_t size = message.integer();
      // Some exporters write -1 for a dimension that is free.
      if (size < -1) message.malformed(fmt::format("a dimension has size {}", size));
      dimension.size = size < 0 ? std::nullopt : std::optional(size);
      dimension.name.clear();
    } else if (message.field() == schema::dimension::parameter) {
      dimension.name = to_utf8(message.bytes());
      dimension.size.reset();
    }
  }
  return dimension;
}

std::vector<Dimension> read_shape(Message message) {
  std::vector<Dimension> dimensions;
  while (message.next()) {
    if (message.field() != schema::shape::dim) continue;
    if (dimensions.size() == max_dimensions) {
      message.malformed(fmt::format("a shape has more than {} dimensions", max_dimensions));
    }
    dimensions.push_back(read_dimension(message.message()));
  }
  return dimensions;
}

ValueType read_tensor_type(ValueKind kind, Message message) {
  ValueType type{.kind = kind};
  while (message.next()) {
    if (message.field() == schema::tensor_type::elem_type) {
      type.element = element_type_of(message, message.integer());
    } else if (message.field() == schema::tensor_type::shape) {
      type.dimensions = read_shape(message.message());
    }
  }
  return type;
}

ValueType read_nested(Message message, unsigned depth);

ValueType read_container_type(ValueKind kind, Message message, unsigned depth) {
  const bool map = kind == ValueKind::map;
  std::uint32_t inner = schema::tensor_type::elem_type;
  if (map) inner = schema::map_type::value_type;
  ValueType type{.kind = kind};
  while (message.next()) {
    if (map && message.field() == schema::map_type::key_type) {
      type.element = element_type_of(message, message.integer());
    } else if (message.field() == inner) {
      type.inner.assign(1, read_nested(message.message(), depth + 1));
    }
  }
  if (type.inner.empty()) message.malformed("a sequence, map or optional type does not say of what");
  return type;
}

ValueType read_nested(Message message, unsigned depth) {
  ValueType type;
  while (message.next()) {
    if (depth > deepest_nesting) {
      message.malformed(fmt::format("types are nested more than {} deep", deepest_nesting));
    }
    switch (message.field()) {
      case schema::type::tensor:
        type = read_tensor_type(ValueKind::tensor, message.message());
        break;
      case schema::type::sparse_tensor:
        type = read_tensor_type(ValueKind::sparse_tensor, message.message());
        break;
      case schema::type::sequence:
        type = read_container_type(ValueKind::sequence, message.message(), depth);
        break;
      case schema::type::map:
        type = read_container_type(ValueKind::map, message.message(), depth);
        break;
      case schema::type::optional:
        type = read_container_type(ValueKind::optional, message.message(), depth);
        break;
      case schema::type::opaque:
        type = ValueType{.kind = ValueKind::opaque};
        break;
      default:
        break;
    }
  }
  return type;
}

}  // namespace

ElementType element_type_of(const Message& message, std::int64_t number) {
  constexpr auto last = static_cast<std::int64_t>(ElementType::int2);
  if (number < 0 || number > last) {
    message.malformed(fmt::format("element type {} is not known, only 1 to {}", number, last));
  }
  return static_cast<ElementType>(number);
}

ValueType read_type(Message message) {
  return read_nested(message, 0);
}

}  // namespace gpux::onnx
