#include <fmt/format.h>

#include "gpux/model_info.h"

namespace gpux {

std::string to_string(const ValueType& type) {
  const auto inner = [&](std::size_t i) { return i < type.inner.size() ? to_string(type.inner[i]) : "?"; };
  switch (type.kind) {
    case ValueKind::sequence:
      return fmt::format("sequence({})", inner(0));
    case ValueKind::optional:
      return fmt::format("optional({})", inner(0));
    case ValueKind::map:
      return fmt::format("map({}, {})", to_string(type.element), inner(0));
    case ValueKind::opaque:
      return "opaque";
    case ValueKind::tensor:
    case ValueKind::sparse_tensor:
      break;
  }
  std::string text = type.kind == ValueKind::sparse_tensor ? "sparse " : "";
  text += to_string(type.element);
  if (!type.dimensions) return text + "[…]";
  text += '[';
  for (std::size_t i = 0; i < type.dimensions->size(); ++i) {
    const Dimension& dimension = (*type.dimensions)[i];
    if (i != 0) text += ", ";
    if (dimension.size) {
      text += std::to_string(*dimension.size);
    } else {
      text += dimension.name.empty() ? "?" : dimension.name;
    }
  }
  return text + ']';
}

}  // namespace gpux
