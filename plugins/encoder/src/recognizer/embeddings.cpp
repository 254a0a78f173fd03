// The embedding tables that a sum of rows is made of.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

using Kind = Expression::Kind;

struct Term {
  const Constant* table = nullptr;
  double scale = 1;
  ExpressionPointer row;  ///< a function of the axis indices 0 (text) and 1 (token)
};

// The terms of a sum, each with what it is multiplied by.
void collect_terms(const ExpressionPointer& sum, double scale,
                   std::vector<std::pair<ExpressionPointer, double>>& terms) {
  const bool is_float = sum->element_type == ElementType::float32;
  const auto factor = is_float && sum->is(Operation::multiply) ? literal_value(sum->arguments[1]) : std::nullopt;
  if (factor) {
    collect_terms(sum->arguments[0], scale * *factor, terms);
  } else if (is_float && sum->is(Operation::add)) {
    for (const ExpressionPointer& argument : sum->arguments) collect_terms(argument, scale, terms);
  } else {
    terms.emplace_back(sum, scale);
  }
}

// An element of a table whose last axis is hidden_size.
std::optional<Term> term_of(const ExpressionPointer& expression, double scale, std::size_t hidden_size) {
  const Expression& lookup = *expression;
  if (lookup.kind != Kind::table || lookup.element_type != ElementType::float32 ||
      !is_axis_index(lookup.arguments.back(), 2) ||
      static_cast<std::size_t>(lookup.constant->shape.back()) != hidden_size) {
    return std::nullopt;
  }
  Term term{lookup.constant, scale, literal(0, ElementType::int64)};
  for (std::size_t axis = 0; axis + 1 < lookup.arguments.size(); ++axis) {
    if (contains(*lookup.arguments[axis],
                 [](const Expression& one) { return one.kind == Kind::axis_index && one.axis > 1; }))
      return std::nullopt;
    const ExpressionPointer scaled =
        apply(Operation::multiply, ElementType::int64,
              {term.row, literal(static_cast<double>(lookup.constant->shape[axis]), ElementType::int64)});
    term.row = apply(Operation::add, ElementType::int64, {scaled, lookup.arguments[axis]});
  }
  return term;
}

std::size_t rows_of(const Constant& table) {
  return table.count() / static_cast<std::size_t>(table.shape.back());
}

// The input of which the row index is the token's own element.
const std::string* token_of(const ExpressionPointer& row, const KnownFacts& facts) {
  if (row->kind != Kind::input || row->arguments.size() != 2) return nullptr;
  const bool is_own_text =
      is_axis_index(row->arguments[0], 0) ||
      (facts.batch == Dimension{Dimension::Kind::fixed, 1} && literal_value(row->arguments[0]) == 0.0);
  return is_own_text && is_axis_index(row->arguments[1], 1) ? &row->name : nullptr;
}

/// Consecutive rows, from position 0 on.
struct ConsecutiveRows {
  std::size_t first = 0, count = 0;
};

// The position plus a constant, or a table of such values, up to the end of the embedding table.
std::optional<ConsecutiveRows> consecutive_rows(const Expression& row, std::size_t rows) {
  const auto at = [&](std::size_t position) {
    return known_value(row, std::array{std::nan(""), static_cast<double>(position)}).value_or(std::nan(""));
  };
  const double first = at(0);
  if (!(first >= 0) || first != std::trunc(first) || !(first < static_cast<double>(rows))) return std::nullopt;
  ConsecutiveRows found{static_cast<std::size_t>(first), 0};
  for (; found.first + found.count < rows; ++found.count) {
    const double here = at(found.count);
    if (std::isnan(here)) break;
    if (here != static_cast<double>(found.first + found.count)) return std::nullopt;
  }
  return found;
}

/// Position ids that count the tokens up to each that are not pad_token_id, plus an offset; the offset for
/// pad_token_id.
struct CountedPositions {
  std::string ids;
  std::int64_t pad_token_id = 0, offset = 0;
};

// Evaluated for the whole vocabulary and all possible counts.
std::optional<CountedPositions> counted_positions_of(const ExpressionPointer& row, std::size_t vocabulary,
                                                     std::size_t positions, const KnownFacts& facts) {
  const Expression* count = nullptr;
  std::set<std::string> inputs;
  const auto look = [&](const Expression& one) {
    if (one.kind == Kind::input) inputs.insert(one.name);
    if (one.kind == Kind::cumulative_sum) count = &one;
    return false;
  };
  (void)contains(*row, look);
  if (count == nullptr || inputs.size() != 1 || !is_axis_index(count->arguments[2], 1)) return std::nullopt;
  // It depends only on the token itself and the count so far.
  const bool is_single_text = facts.batch == Dimension{Dimension::Kind::fixed, 1};
  bool is_own = is_axis_index(count->arguments[1], 0) || (is_single_text && literal_value(count->arguments[1]) == 0.0);
  const auto own_leaves = [&](const Expression& one) {
    const bool is_leaf = one.kind == Kind::input || one.kind == Kind::cumulative_sum;
    if (one.kind == Kind::axis_index) return false;
    if (one.kind == Kind::input) {
      const auto shared = std::make_shared<const Expression>(one);
      is_own = is_own && token_of(shared, facts) != nullptr;
    }
    if (one.kind == Kind::cumulative_sum) is_own = is_own && same(one, *count);
    return is_leaf && false;
  };
  (void)contains(*row, own_leaves);
  if (!is_own) return std::nullopt;

  const auto with = [&](const Expression& expression, double id, double counted) {
    return evaluate(expression, {}, [&](const Expression& leaf) { return leaf.kind == Kind::input ? id : counted; });
  };
  CountedPositions found{*inputs.begin(), -1, 0};
  for (std::size_t id = 0; id < vocabulary; ++id) {
    const double counts = with(*count->arguments[0], static_cast<double>(id), std::nan(""));
    if (counts == 1) continue;
    if (counts != 0 || found.pad_token_id >= 0) return std::nullopt;
    found.pad_token_id = static_cast<std::int64_t>(id);
  }
  if (found.pad_token_id < 0) return std::nullopt;
  const auto pad_token_id = static_cast<double>(found.pad_token_id);
  const double offset = with(*row, pad_token_id, 0);
  if (!(offset >= 0) || offset != std::trunc(offset)) return std::nullopt;
  found.offset = static_cast<std::int64_t>(offset);
  const double other = found.pad_token_id == 0 ? 1 : 0;
  for (std::size_t counted = 0; counted <= positions; ++counted) {
    const auto so_far = static_cast<double>(counted);
    if (with(*row, pad_token_id, so_far) != offset || with(*row, other, so_far) != so_far + offset) return std::nullopt;
  }
  for (std::size_t id = 0; id < vocabulary; ++id) {
    const double expected = static_cast<std::int64_t>(id) == found.pad_token_id ? offset : 3 + offset;
    if (with(*row, static_cast<double>(id), 3) != expected) return std::nullopt;
  }
  return found;
}

}  // namespace

std::optional<RecognizedEmbeddings> embeddings_of(const SymbolicTensor& tensor, const KnownFacts& facts,
                                                  std::string& why) {
  const auto refuse = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };

  if (tensor.shape.size() != 3 || tensor.shape[0] != facts.batch || tensor.shape[1] != facts.sequence ||
      tensor.shape[2].kind != Dimension::Kind::fixed || tensor.shape[2].value < 1) {
    return refuse("is not over tensors of [batch, sequence, hidden_size]");
  }
  const auto hidden_size = static_cast<std::size_t>(tensor.shape[2].value);
  RecognizedEmbeddings found;
  std::vector<Term> by_token, others;
  std::vector<std::pair<ExpressionPointer, double>> summands;
  collect_terms(tensor.expression, 1, summands);
  for (const auto& [one, scale] : summands) {
    const auto term = term_of(one, scale, hidden_size);
    if (!term) return refuse("is over something else than rows of embedding tables");
    (token_of(term->row, facts) != nullptr ? by_token : others).push_back(*term);
  }
  if (by_token.empty() || by_token.size() > 2) return refuse("is not over rows of input_ids");
  std::ranges::sort(by_token, [](const Term& a, const Term& b) { return rows_of(*a.table) > rows_of(*b.table); });
  found.input_ids = *token_of(by_token[0].row, facts);
  found.word_embeddings = {by_token[0].table, 0};
  found.scale = static_cast<float>(by_token[0].scale);
  const auto is_scaled = [](const Term& term) { return term.scale != 1; };
  if (std::ranges::any_of(others, is_scaled) || (by_token.size() == 2 && is_scaled(by_token[1])))
    return refuse("scales other rows than those of input_ids");
  if (by_token.size() == 2) {
    found.token_type_ids = *token_of(by_token[1].row, facts);
    found.token_type_embeddings = {by_token[1].table, 0};
  }
  for (const Term& term : others) {
    const std::size_t rows = rows_of(*term.table);
    if (const auto row = literal_value(term.row)) {
      if (found.token_type_embeddings.rows != nullptr || *row < 0 || *row >= static_cast<double>(rows)) {
        return refuse("adds more than one row that all tokens share");
      }
      found.token_type_embeddings = {term.table, static_cast<std::size_t>(*row)};
      continue;
    }
    if (found.position_embeddings.rows != nullptr) return refuse("adds more than one row for each position");
    if (const auto consecutive = consecutive_rows(*term.row, rows)) {
      found.position_embeddings = {term.table, consecutive->first};
      found.max_positions = consecutive->count;
      continue;
    }
    const auto counting = counted_positions_of(term.row, rows_of(*found.word_embeddings.rows), rows, facts);
    if (!counting || counting->ids != found.input_ids || static_cast<std::size_t>(counting->offset) >= rows) {
      return refuse("has position ids that are neither consecutive nor counted from tokens");
    }
    found.position_embeddings = {term.table, static_cast<std::size_t>(counting->offset)};
    found.pad_token_id = counting->pad_token_id;
    found.max_positions = rows - static_cast<std::size_t>(counting->offset);
  }
  return found;
}

}  // namespace gpux_cpu::encoder
