// What a mask makes of the scores.
#include <algorithm>
#include <set>

#include "reading.h"

namespace gpux_encoder {

std::optional<ReadMask> mask_of(const Field& field, std::size_t rank, std::size_t text_axis, std::size_t key_axis,
                                const Reading& reading) {
  if (field.shape.size() > rank) return std::nullopt;
  const ExpressionPointer at = seen_from(field, rank);
  std::set<std::string> names;
  (void)contains(*at, [&](const Expression& one) {
    if (one.kind == Expression::Kind::input) names.insert(one.name);
    return false;
  });
  if (names.size() > 1) return std::nullopt;
  ReadMask found;
  if (!names.empty()) found.input = *names.begin();
  // An input is read nowhere but at the text and the key.
  const auto with = [&](double bit) {
    return number_of(substitute(at, {}, [&](const Expression& leaf) -> ExpressionPointer {
      if (leaf.kind != Expression::Kind::input) return nullptr;
      const bool is_text = is_place(leaf.arguments[0], text_axis) ||
                           (reading.texts == Size{Size::Kind::number, 1} && number_of(leaf.arguments[0]) == 0.0);
      return is_text && is_place(leaf.arguments[1], key_axis) ? number(bit, Element::int64) : nullptr;
    }));
  };
  const auto counted = with(1), hidden = with(0);
  if (!counted || !hidden) return std::nullopt;
  found.counted = *counted;
  found.hidden = *hidden;
  return found;
}

}  // namespace gpux_encoder
