// What is added to attention scores, or replaces them: masks, windows, causality, and biases by position.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "recognizer/known_facts.h"
#include "recognizer/relative_positions.h"

namespace gpux_cpu::encoder {
namespace {

/// A mask adds at most this to the score of a masked key.
constexpr double max_masked_score = -9999;

constexpr std::size_t text_axis = 0, query_axis = 2, key_axis = 3;

bool is_token(const Expression& leaf, std::size_t token_axis, const KnownFacts& facts) {
  if (leaf.kind != Expression::Kind::input || leaf.arguments.size() != 2) return false;
  const bool is_text = is_axis_index(leaf.arguments[0], text_axis) ||
                       (facts.batch == fixed(1) && literal_value(leaf.arguments[0]) == 0.0);
  return is_text && is_axis_index(leaf.arguments[1], token_axis);
}

ExpressionPointer with_bits(const ExpressionPointer& term, double of_key, double of_query, const KnownFacts& facts) {
  return substitute(term, {}, [&](const Expression& leaf) -> ExpressionPointer {
    if (is_token(leaf, key_axis, facts)) return literal(of_key, ElementType::int64);
    return is_token(leaf, query_axis, facts) ? literal(of_query, ElementType::int64) : nullptr;
  });
}

/// A term that is 0 for attended keys, and hides the others.
struct Visibility {
  MaskSource source;
  VisibleRange range;
  double masked_score = 0;  ///< of a masked key
  bool excludes_queries = false;
};

SymbolicTensor over_scores(const ExpressionPointer& at, const KnownFacts& facts) {
  return {{facts.batch, fixed(1), facts.sequence, facts.sequence}, ElementType::float32, at};
}

std::optional<Visibility> visibility_of(const ExpressionPointer& term, const KnownFacts& facts) {
  // A mask over keys alone, of all kinds.
  if (const auto mask = mask_of(over_scores(term, facts), 4, text_axis, key_axis, facts)) {
    if (mask->unmasked == 0 && mask->masked == 0) return Visibility{};
    const bool hides = mask->unmasked == 0 && mask->masked < max_masked_score && !mask->source.input.empty();
    return hides ? std::optional(Visibility{mask->source, {}, mask->masked, false}) : std::nullopt;
  }
  std::set<std::string> names;
  (void)contains(*term, [&](const Expression& one) {
    if (one.kind == Expression::Kind::input) names.insert(one.name);
    return false;
  });
  if (names.size() > 1 || (!names.empty() && *names.begin() == facts.input_ids)) return std::nullopt;
  if (!names.empty() && facts.input_ids.empty()) facts.masks_before_input_ids.insert(*names.begin());
  const auto unmasked = visible_range_of(*with_bits(term, 1, 1, facts), max_masked_score);
  if (!unmasked || unmasked->is_empty) return std::nullopt;
  Visibility found{{}, *unmasked, 0, false};
  if (names.empty()) return found;
  found.source.input = *names.begin();
  const ExpressionPointer masked_key = with_bits(term, 0, 1, facts);
  const auto masked = visible_range_of(*masked_key, max_masked_score);
  const auto masked_score = value_at_difference(*masked_key, 0, 0);
  if (!masked || !masked->is_empty || !masked_score) return std::nullopt;
  found.masked_score = *masked_score;
  const auto masked_query = visible_range_of(*with_bits(term, 1, 0, facts), max_masked_score);
  if (!masked_query) return std::nullopt;
  if (masked_query->is_empty) {
    found.excludes_queries = true;
  } else if (masked_query->left != unmasked->left || masked_query->right != unmasked->right) {
    return std::nullopt;
  }
  return found;
}

void narrow(std::optional<std::size_t>& range, const std::optional<std::size_t>& by) {
  if (by) range = range ? std::min(*range, *by) : *by;
}

bool is_position_bias(const Expression& term) {
  return !contains(term, [](const Expression& one) {
    return one.kind == Expression::Kind::input || one.kind == Expression::Kind::cumulative_sum ||
           one.kind == Expression::Kind::computed || one.kind == Expression::Kind::dimension ||
           (one.kind == Expression::Kind::axis_index && (one.axis == text_axis || one.axis > key_axis));
  });
}

// A bias where a condition is true, and a number that hides keys elsewhere: a mask and a bias.
std::optional<std::array<ExpressionPointer, 2>> masked_bias_of(const Expression& term) {
  if (!term.is(Operation::where)) return std::nullopt;
  for (const std::size_t bias : {std::size_t{1}, std::size_t{2}}) {
    const auto hidden = literal_value(term.arguments[3 - bias]);
    if (!hidden || !(*hidden < max_masked_score) || term.arguments[bias]->kind == Expression::Kind::literal) continue;
    std::vector<ExpressionPointer> arguments = term.arguments;
    arguments[bias] = literal(0, ElementType::float32);
    return std::array{apply(Operation::where, ElementType::float32, std::move(arguments)), term.arguments[bias]};
  }
  return std::nullopt;
}

std::string apply_visibility(AttentionScores& scores, const Visibility& found, bool replaces) {
  narrow(scores.left, found.range.left);
  narrow(scores.right, found.range.right);
  if (found.source.input.empty()) return {};
  if (scores.mask) {
    // The same mask in a second term hides no more.
    const bool is_same = scores.mask->source == found.source && !scores.mask->from_front && !replaces;
    if (!is_same) return "adds a second mask to scores";
    scores.mask->excludes_queries = scores.mask->excludes_queries || found.excludes_queries;
    return {};
  }
  scores.mask = RecognizedMask{
      found.source, {static_cast<float>(found.masked_score), replaces, false}, false, found.excludes_queries};
  return {};
}

}  // namespace

std::string add_to_scores(AttentionScores& scores, const ExpressionPointer& added, const KnownFacts& facts) {
  for (const ExpressionPointer& term : terms_of(added)) {
    if (const auto found = visibility_of(term, facts)) {
      if (std::string wrong = apply_visibility(scores, *found, false); !wrong.empty()) return wrong;
      continue;
    }
    if (const auto parts = masked_bias_of(*term)) {
      for (const ExpressionPointer& part : *parts) {
        if (std::string wrong = add_to_scores(scores, part, facts); !wrong.empty()) return wrong;
      }
      continue;
    }
    if (!is_position_bias(*term))
      return "adds something to scores that is neither a mask over keys nor a position bias";
    if (scores.bias || (scores.mask && scores.mask->keys.replaces)) return "adds a second position bias";
    if (depends_on_difference(*term)) {
      scores.bias = RecognizedBias{term, 0};
    } else if (const auto positions = table_positions(*term, scores.num_heads)) {
      scores.bias = RecognizedBias{term, *positions};
    } else {
      return "adds a position bias to scores that depends on more than the distance of query and key";
    }
  }
  return {};
}

std::string replace_scores(AttentionScores& scores, const ExpressionPointer& condition, bool attended_if_true,
                           double otherwise, const KnownFacts& facts) {
  const ExpressionPointer zero = literal(0, ElementType::float32), hidden = literal(otherwise, ElementType::float32);
  const ExpressionPointer term = apply(Operation::where, ElementType::float32,
                                       {condition, attended_if_true ? zero : hidden, attended_if_true ? hidden : zero});
  const auto found = visibility_of(term, facts);
  if (!found) return "replaces scores by something else than a mask over keys";
  return apply_visibility(scores, *found, true);
}

}  // namespace gpux_cpu::encoder
