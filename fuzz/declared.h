#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux::fuzz {

/// Takes one character off the input: its place in the alphabet from 'a', within 0 … `count` - 1.
inline unsigned take_choice(std::string_view& input, unsigned count) {
  if (input.empty()) return 0;
  const unsigned choice = (static_cast<unsigned char>(input.front()) - unsigned{'a'}) & 0xffU;
  input.remove_prefix(1);
  return choice % count;
}

/// Takes an element type off the input, one character: 'b' is float32, 'h' int64, 'i' string.
inline ElementType take_element_type(std::string_view& input) {
  constexpr unsigned types = static_cast<unsigned>(ElementType::int2) + 1;
  return static_cast<ElementType>(take_choice(input, types));
}

/// Takes a type off the input, two characters: the element's, then what is made of it.
inline ValueType take_type(std::string_view& input) {
  ValueType tensor{.kind = ValueKind::tensor, .element = take_element_type(input)};
  const Dimension free{.name = "n"};
  const auto fixed = [](std::int64_t size) { return Dimension{.size = size}; };
  const auto of = [](ValueKind kind, ValueType inner, ElementType key = ElementType::undefined) {
    return ValueType{.kind = kind, .element = key, .inner = {std::move(inner)}};
  };
  switch (take_choice(input, 15)) {
    case 0:
      return tensor;
    case 1:
      tensor.dimensions.emplace();
      return tensor;
    case 2:
      tensor.dimensions = {free};
      return tensor;
    case 3:
      tensor.dimensions = {free, fixed(3)};
      return tensor;
    case 4:
      tensor.dimensions = {fixed(2), fixed(3)};
      return tensor;
    case 5:
      tensor.dimensions = {fixed(2), fixed(0), free};
      return tensor;
    case 6:
      return of(ValueKind::sequence, tensor);
    case 7:
      return of(ValueKind::sequence, of(ValueKind::sequence, tensor));
    case 8:
      return of(ValueKind::map, tensor, ElementType::string);
    case 9:
      return of(ValueKind::sequence, of(ValueKind::map, tensor, ElementType::int64));
    case 10:
      return of(ValueKind::optional, tensor);
    case 11:
      return of(ValueKind::optional, of(ValueKind::sequence, tensor));
    case 12:
      return of(ValueKind::optional, of(ValueKind::optional, tensor));
    case 13:
      tensor.kind = ValueKind::sparse_tensor;
      return tensor;
    default:
      return {.kind = ValueKind::opaque};
  }
}

/// Whether they are the same bit for bit.
inline bool same(const Tensor& left, const Tensor& right) {
  if (left.type() != right.type() || left.shape() != right.shape()) return false;
  if (left.type() == ElementType::string) return std::ranges::equal(left.strings(), right.strings());
  return left.byte_size() == 0 || std::memcmp(left.bytes().data(), right.bytes().data(), left.byte_size()) == 0;
}

inline bool same(const Value& left, const Value& right) {
  if (left.index() != right.index()) return false;
  if (left.tensor() != nullptr) return same(*left.tensor(), *right.tensor());
  if (left.map() != nullptr) {
    return same(left.map()->keys, right.map()->keys) && same(left.map()->values, right.map()->values);
  }
  if (left.sequence() == nullptr) return true;
  return std::ranges::equal(left.sequence()->values, right.sequence()->values,
                            [](const Value& a, const Value& b) { return same(a, b); });
}

}  // namespace gpux::fuzz
