// What a mask makes of the scores.
#include <cmath>
#include <set>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

// An input is read nowhere but at the text and the key.
bool is_of_key(const Expression& leaf, std::size_t text_axis, std::size_t key_axis, const Reading& reading) {
  if (leaf.kind != Expression::Kind::input || leaf.arguments.size() != 2) return false;
  const bool is_text = is_place(leaf.arguments[0], text_axis) ||
                       (reading.texts == Size{Size::Kind::number, 1} && number_of(leaf.arguments[0]) == 0.0);
  return is_text && is_place(leaf.arguments[1], key_axis);
}

// What comes of each id there is: all but one count.
std::optional<ReadMask> tried_with_all_ids(const Expression& of_id, const Reading& reading) {
  const auto with = [&](std::size_t id) {
    return evaluate(of_id, {}, [id](const Expression& leaf) {
      return leaf.kind == Expression::Kind::input && leaf.arguments.empty() ? static_cast<double>(id) : std::nan("");
    });
  };
  if (reading.vocabulary < 3) return std::nullopt;
  // Of the first three ids two are alike.
  const double counted = with(0) == with(1) ? with(0) : with(2);
  ReadMask found{{reading.ids, std::nullopt}, counted, counted};
  for (std::size_t id = 0; id < reading.vocabulary; ++id) {
    const double value = with(id);
    if (value == counted) continue;
    if (std::isnan(value) || found.source.masked_id) return std::nullopt;
    found.source.masked_id = static_cast<std::int64_t>(id);
    found.hidden = value;
  }
  return found.source.masked_id ? std::optional(found) : std::nullopt;
}

std::optional<ReadMask> mask_of_ids(const ExpressionPointer& at, std::size_t text_axis, std::size_t key_axis,
                                    const Reading& reading) {
  const ExpressionPointer of_id = substitute(at, {}, [&](const Expression& leaf) -> ExpressionPointer {
    return is_of_key(leaf, text_axis, key_axis, reading) ? input_at(leaf.name, {}) : nullptr;
  });
  for (const auto& [known, mask] : reading.masks_of_ids) {
    if (same(*known, *of_id)) return mask;
  }
  return reading.masks_of_ids.emplace_back(of_id, tried_with_all_ids(*of_id, reading)).second;
}

}  // namespace

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
  if (!names.empty() && *names.begin() == reading.ids) return mask_of_ids(at, text_axis, key_axis, reading);
  ReadMask found;
  if (!names.empty()) found.source.input = *names.begin();
  if (!names.empty() && reading.ids.empty()) reading.masks_before_ids.insert(*names.begin());
  const auto with = [&](double bit) {
    return number_of(substitute(at, {}, [&](const Expression& leaf) -> ExpressionPointer {
      return is_of_key(leaf, text_axis, key_axis, reading) ? number(bit, Element::int64) : nullptr;
    }));
  };
  const auto counted = with(1), hidden = with(0);
  if (!counted || !hidden) return std::nullopt;
  found.counted = *counted;
  found.hidden = *hidden;
  return found;
}

}  // namespace gpux_encoder
