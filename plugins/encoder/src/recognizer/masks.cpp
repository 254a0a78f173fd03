// Masks over keys: evaluated for a masked and an unmasked token.
#include <cmath>
#include <set>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

// The element of an input for the text and the key.
bool is_of_key(const Expression& leaf, std::size_t text_axis, std::size_t key_axis, const KnownFacts& facts) {
  if (leaf.kind != Expression::Kind::input || leaf.arguments.size() != 2) return false;
  const bool is_text = is_axis_index(leaf.arguments[0], text_axis) ||
                       (facts.batch == Dimension{Dimension::Kind::fixed, 1} && literal_value(leaf.arguments[0]) == 0.0);
  return is_text && is_axis_index(leaf.arguments[1], key_axis);
}

// Evaluated for the whole vocabulary: a mask if all ids but one have the same value.
std::optional<EvaluatedMask> tried_with_all_ids(const Expression& of_id, const KnownFacts& facts) {
  const auto with = [&](std::size_t id) {
    return evaluate(of_id, {}, [id](const Expression& leaf) {
      return leaf.kind == Expression::Kind::input && leaf.arguments.empty() ? static_cast<double>(id) : std::nan("");
    });
  };
  if (facts.vocabulary_size < 3) return std::nullopt;
  // At least two of the first three ids are unmasked.
  const double unmasked = with(0) == with(1) ? with(0) : with(2);
  EvaluatedMask found{{facts.input_ids, std::nullopt}, unmasked, unmasked};
  for (std::size_t id = 0; id < facts.vocabulary_size; ++id) {
    const double value = with(id);
    if (value == unmasked) continue;
    if (std::isnan(value) || found.source.masked_id) return std::nullopt;
    found.source.masked_id = static_cast<std::int64_t>(id);
    found.masked = value;
  }
  return found.source.masked_id ? std::optional(found) : std::nullopt;
}

std::optional<EvaluatedMask> mask_of_ids(const ExpressionPointer& at, std::size_t text_axis, std::size_t key_axis,
                                         const KnownFacts& facts) {
  const ExpressionPointer of_id = substitute(at, {}, [&](const Expression& leaf) -> ExpressionPointer {
    return is_of_key(leaf, text_axis, key_axis, facts) ? input_element(leaf.name, {}) : nullptr;
  });
  const bool depends_on_index = contains(*of_id, [](const Expression& one) {
    return one.kind == Expression::Kind::axis_index || one.kind == Expression::Kind::dimension ||
           one.kind == Expression::Kind::computed;
  });
  if (depends_on_index) return std::nullopt;
  for (const auto& [known, mask] : facts.masks_of_input_ids) {
    if (same(*known, *of_id)) return mask;
  }
  return facts.masks_of_input_ids.emplace_back(of_id, tried_with_all_ids(*of_id, facts)).second;
}

}  // namespace

std::optional<EvaluatedMask> mask_of(const SymbolicTensor& tensor, std::size_t rank, std::size_t text_axis,
                                     std::size_t key_axis, const KnownFacts& facts) {
  if (tensor.shape.size() > rank) return std::nullopt;
  const ExpressionPointer at = broadcast_to(tensor, rank);
  std::set<std::string> names;
  (void)contains(*at, [&](const Expression& one) {
    if (one.kind == Expression::Kind::input) names.insert(one.name);
    return false;
  });
  if (names.size() > 1) return std::nullopt;
  if (!names.empty() && *names.begin() == facts.input_ids) return mask_of_ids(at, text_axis, key_axis, facts);
  EvaluatedMask found;
  if (!names.empty()) found.source.input = *names.begin();
  if (!names.empty() && facts.input_ids.empty()) facts.masks_before_input_ids.insert(*names.begin());
  const auto with = [&](double bit) {
    return literal_value(substitute(at, {}, [&](const Expression& leaf) -> ExpressionPointer {
      return is_of_key(leaf, text_axis, key_axis, facts) ? literal(bit, ElementType::int64) : nullptr;
    }));
  };
  const auto unmasked = with(1), masked = with(0);
  if (!unmasked || !masked) return std::nullopt;
  found.unmasked = *unmasked;
  found.masked = *masked;
  return found;
}

std::optional<MaskSource> bits_of(const SymbolicTensor& tensor, const KnownFacts& facts) {
  const std::size_t rank = tensor.shape.size();
  if (rank < 2 || rank > 3 || tensor.shape[0] != facts.batch || tensor.shape[1] != facts.sequence) return std::nullopt;
  const auto mask = mask_of(tensor, rank, 0, 1, facts);
  if (!mask || mask->unmasked != 1 || mask->masked != 0) return std::nullopt;
  return mask->source;
}

}  // namespace gpux_cpu::encoder
