#include "project/declared_type.h"

#include <utility>

namespace gpux {
namespace {

constexpr int limit_depth = 8;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// What stands in the brackets of "NAME(…)".
std::optional<std::string_view> inside(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || text.size() < name.size() + 2) return std::nullopt;
  if (text[name.size()] != '(' || text.back() != ')') return std::nullopt;
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

std::optional<ValueType> read(std::string_view text, int depth);

std::optional<ValueType> read_inner(ValueKind kind, ElementType key, std::string_view text, int depth) {
  std::optional<ValueType> inner = read(text, depth + 1);
  if (!inner) return std::nullopt;
  ValueType type;
  type.kind = kind;
  type.element = key;
  type.inner.push_back(*std::move(inner));
  return type;
}

std::optional<ValueType> read_map(std::string_view text, int depth) {
  const std::size_t comma = text.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const std::optional<ElementType> key = element_type_from(trimmed(text.substr(0, comma)));
  if (!key) return std::nullopt;
  return read_inner(ValueKind::map, *key, text.substr(comma + 1), depth);
}

std::optional<ValueType> read_tensor(ValueKind kind, std::string_view text) {
  const std::optional<ElementType> element = element_type_from(text);
  if (!element) return std::nullopt;
  ValueType type;
  type.kind = kind;
  type.element = *element;
  return type;
}

std::optional<ValueType> read(std::string_view text, int depth) {
  text = trimmed(text);
  if (depth > limit_depth) return std::nullopt;
  for (const std::string_view name : {"sequence", "seq"}) {
    if (const auto inner = inside(text, name)) return read_inner(ValueKind::sequence, {}, *inner, depth);
  }
  if (const auto inner = inside(text, "optional")) return read_inner(ValueKind::optional, {}, *inner, depth);
  if (const auto inner = inside(text, "map")) return read_map(*inner, depth);
  if (const auto inner = inside(text, "sparse_tensor")) return read_tensor(ValueKind::sparse_tensor, trimmed(*inner));
  return read_tensor(ValueKind::tensor, text);
}

}  // namespace

std::optional<ValueType> value_type_from(std::string_view text) {
  return read(text, 0);
}

}  // namespace gpux
