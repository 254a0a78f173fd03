// What rows of tables a sum is made of.
#include <algorithm>
#include <cmath>
#include <set>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

using Kind = Expression::Kind;

struct Term {
  const Constant* table = nullptr;
  ExpressionPointer row;  ///< over the places 0 (text) and 1 (token)
};

// An element of a table whose last axis is the width.
std::optional<Term> term_of(const ExpressionPointer& expression, std::size_t width) {
  const Expression& element = *expression;
  if (element.kind != Kind::table || element.element != Element::float32 || !is_place(element.arguments.back(), 2) ||
      static_cast<std::size_t>(element.constant->shape.back()) != width) {
    return std::nullopt;
  }
  Term term{element.constant, number(0, Element::int64)};
  for (std::size_t axis = 0; axis + 1 < element.arguments.size(); ++axis) {
    if (contains(*element.arguments[axis],
                 [](const Expression& one) { return one.kind == Kind::place && one.axis > 1; }))
      return std::nullopt;
    const ExpressionPointer scaled =
        apply(Operation::multiply, Element::int64,
              {term.row, number(static_cast<double>(element.constant->shape[axis]), Element::int64)});
    term.row = apply(Operation::add, Element::int64, {scaled, element.arguments[axis]});
  }
  return term;
}

std::size_t rows_of(const Constant& table) {
  return table.count() / static_cast<std::size_t>(table.shape.back());
}

// The input whose own element stands there.
const std::string* token_of(const ExpressionPointer& row, const Reading& reading) {
  if (row->kind != Kind::input || row->arguments.size() != 2) return nullptr;
  const bool is_own_text = is_place(row->arguments[0], 0) ||
                           (reading.texts == Size{Size::Kind::number, 1} && number_of(row->arguments[0]) == 0.0);
  return is_own_text && is_place(row->arguments[1], 1) ? &row->name : nullptr;
}

/// Rows one after the other, from the first place on.
struct Following {
  std::size_t first = 0, count = 0;
};

// The place and a number, or what a table of such has: as far as there are rows.
std::optional<Following> following(const Expression& row, std::size_t rows) {
  const auto at = [&](std::size_t place) { return evaluate(row, {std::nan(""), static_cast<double>(place)}); };
  const double first = at(0);
  if (!(first >= 0) || first != std::trunc(first) || !(first < static_cast<double>(rows))) return std::nullopt;
  Following found{static_cast<std::size_t>(first), 0};
  for (; found.first + found.count < rows; ++found.count) {
    const double here = at(found.count);
    if (std::isnan(here)) break;
    if (here != static_cast<double>(found.first + found.count)) return std::nullopt;
  }
  return found;
}

/// How many tokens there are up to each that are not padding, and something; for padding the something alone.
struct Counting {
  std::string ids;
  std::int64_t padding = 0, offset = 0;
};

// Tried with all ids and all counts there can be.
std::optional<Counting> counting_of(const ExpressionPointer& row, std::size_t vocabulary, std::size_t positions,
                                    const Reading& reading) {
  const Expression* count = nullptr;
  std::set<std::string> inputs;
  const auto look = [&](const Expression& one) {
    if (one.kind == Kind::input) inputs.insert(one.name);
    if (one.kind == Kind::count) count = &one;
    return false;
  };
  (void)contains(*row, look);
  if (count == nullptr || inputs.size() != 1 || !is_place(count->arguments[2], 1)) return std::nullopt;
  // All that it reads is of the token itself, and of what is counted so far.
  const bool is_single_text = reading.texts == Size{Size::Kind::number, 1};
  bool is_own = is_place(count->arguments[1], 0) || (is_single_text && number_of(count->arguments[1]) == 0.0);
  const auto own_leaves = [&](const Expression& one) {
    const bool is_leaf = one.kind == Kind::input || one.kind == Kind::count;
    if (one.kind == Kind::place) return false;
    if (one.kind == Kind::input) {
      const auto shared = std::make_shared<const Expression>(one);
      is_own = is_own && token_of(shared, reading) != nullptr;
    }
    if (one.kind == Kind::count) is_own = is_own && same(one, *count);
    return is_leaf && false;
  };
  (void)contains(*row, own_leaves);
  if (!is_own) return std::nullopt;

  const auto with = [&](const Expression& expression, double id, double counted) {
    return evaluate(expression, {}, [&](const Expression& leaf) { return leaf.kind == Kind::input ? id : counted; });
  };
  Counting found{*inputs.begin(), -1, 0};
  for (std::size_t id = 0; id < vocabulary; ++id) {
    const double counts = with(*count->arguments[0], static_cast<double>(id), std::nan(""));
    if (counts == 1) continue;
    if (counts != 0 || found.padding >= 0) return std::nullopt;
    found.padding = static_cast<std::int64_t>(id);
  }
  if (found.padding < 0) return std::nullopt;
  const auto padding = static_cast<double>(found.padding);
  const double offset = with(*row, padding, 0);
  if (!(offset >= 0) || offset != std::trunc(offset)) return std::nullopt;
  found.offset = static_cast<std::int64_t>(offset);
  const double other = found.padding == 0 ? 1 : 0;
  for (std::size_t counted = 0; counted <= positions; ++counted) {
    const auto so_far = static_cast<double>(counted);
    if (with(*row, padding, so_far) != offset || with(*row, other, so_far) != so_far + offset) return std::nullopt;
  }
  for (std::size_t id = 0; id < vocabulary; ++id) {
    const double expected = static_cast<std::int64_t>(id) == found.padding ? offset : 3 + offset;
    if (with(*row, static_cast<double>(id), 3) != expected) return std::nullopt;
  }
  return found;
}

}  // namespace

std::optional<FoundEmbeddings> embeddings_of(const Field& field, const Reading& reading, std::string& why) {
  const auto refuse = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  using Number = Size::Kind;
  if (field.shape.size() != 3 || field.shape[0] != reading.texts || field.shape[1] != reading.tokens ||
      field.shape[2].kind != Number::number || field.shape[2].number < 1) {
    return refuse("is not over a row for each token");
  }
  const auto width = static_cast<std::size_t>(field.shape[2].number);
  FoundEmbeddings found;
  std::vector<Term> by_token, others;
  for (const ExpressionPointer& one : terms_of(field.at)) {
    const auto term = term_of(one, width);
    if (!term) return refuse("is over more than rows of tables");
    (token_of(term->row, reading) != nullptr ? by_token : others).push_back(*term);
  }
  if (by_token.empty() || by_token.size() > 2) return refuse("is not over rows that the tokens' ids tell");
  std::ranges::sort(by_token, [](const Term& a, const Term& b) { return rows_of(*a.table) > rows_of(*b.table); });
  found.ids = *token_of(by_token[0].row, reading);
  found.words = {by_token[0].table, 0};
  if (by_token.size() == 2) {
    found.types = *token_of(by_token[1].row, reading);
    found.type_rows = {by_token[1].table, 0};
  }
  for (const Term& term : others) {
    const std::size_t rows = rows_of(*term.table);
    if (const auto row = number_of(term.row)) {
      if (found.type_rows.rows != nullptr || *row < 0 || *row >= static_cast<double>(rows)) {
        return refuse("is over more than one row that all tokens share");
      }
      found.type_rows = {term.table, static_cast<std::size_t>(*row)};
      continue;
    }
    if (found.positions.rows != nullptr) return refuse("is over more than one row for each place");
    if (const auto places = following(*term.row, rows)) {
      found.positions = {term.table, places->first};
      found.longest = places->count;
      continue;
    }
    const auto counting = counting_of(term.row, rows_of(*found.words.rows), rows, reading);
    if (!counting || counting->ids != found.ids || static_cast<std::size_t>(counting->offset) >= rows) {
      return refuse("takes positions that are neither places nor counted tokens");
    }
    found.positions = {term.table, static_cast<std::size_t>(counting->offset)};
    found.padding = counting->padding;
    found.longest = rows - static_cast<std::size_t>(counting->offset);
  }
  if (found.positions.rows == nullptr) return refuse("has no row for each place");
  return found;
}

}  // namespace gpux_encoder
