// Queries, keys and values: columns of a projection as vectors of heads, with norms and rotary positions. Each element
// is a sum of columns, each times a factor and a cosine or sine; what these sums are is derived for each head and
// column.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

// The indices of the expressions: text, head, token, column.
constexpr std::size_t text_axis = 0, token_axis = 2;

/// A function of the token's position.
struct Wave {
  enum class Kind : std::uint8_t { none, cosine, sine, table } kind = Kind::none;
  double frequency = 0;                ///< of cosine and sine
  const Constant* constant = nullptr;  ///< of a table: its elements `first` + position * `stride`
  std::size_t first = 0, stride = 0, positions = 0;

  bool operator==(const Wave&) const = default;
};

struct Coefficient {
  double factor = 0;
  Wave wave;
};

struct Term {
  double column = 0;  ///< of the leaf
  Coefficient coefficient;
};

/// A sum of terms, or a single coefficient.
struct LinearForm {
  std::vector<Term> terms;
  std::optional<Coefficient> scalar;
};

class Linearizer {
 public:
  Linearizer(const Expression& leaf, std::size_t head_size, const KnownFacts& facts)
      : leaf_(leaf), head_size_(head_size), facts_(facts) {}

  std::optional<LinearForm> form_of(const Expression& expression, std::size_t head, std::size_t column) {
    indices_ = {std::nan(""), static_cast<double>(head), std::nan(""), static_cast<double>(column)};
    return of(expression);
  }

 private:
  static LinearForm scalar(double value) { return {{}, Coefficient{value, {}}}; }

  std::optional<LinearForm> of(const Expression& expression) const {
    if (expression.kind == Expression::Kind::computed) return of_leaf(expression);
    if (const auto value = known_value(expression, indices_)) return scalar(*value);
    if (expression.kind == Expression::Kind::table) return of_table(expression);
    if (expression.kind != Expression::Kind::apply) return std::nullopt;
    switch (expression.operation) {
      case Operation::where: {
        const auto condition = known_value(*expression.arguments[0], indices_);
        if (!condition) return std::nullopt;
        return of(*expression.arguments[*condition != 0 ? 1 : 2]);
      }
      case Operation::cast:
        return expression.element_type == ElementType::float32 ? of(*expression.arguments[0]) : std::nullopt;
      case Operation::negate:
        return scaled(of(*expression.arguments[0]), {-1, {}});
      case Operation::add:
        return added(of(*expression.arguments[0]), of(*expression.arguments[1]));
      case Operation::subtract:
        return added(of(*expression.arguments[0]), scaled(of(*expression.arguments[1]), {-1, {}}));
      case Operation::multiply: {
        auto a = of(*expression.arguments[0]), b = of(*expression.arguments[1]);
        if (!a || !b) return std::nullopt;
        if (b->scalar) return scaled(std::move(a), *b->scalar);
        return a->scalar ? scaled(std::move(b), *a->scalar) : std::nullopt;
      }
      case Operation::divide: {
        const auto by = known_value(*expression.arguments[1], indices_);
        return by && *by != 0 ? scaled(of(*expression.arguments[0]), {1 / *by, {}}) : std::nullopt;
      }
      case Operation::cosine:
      case Operation::sine: {
        const auto frequency = frequency_of(*expression.arguments[0]);
        if (!frequency) return std::nullopt;
        const bool is_cosine = expression.operation == Operation::cosine;
        return LinearForm{
            {}, Coefficient{1, {is_cosine ? Wave::Kind::cosine : Wave::Kind::sine, *frequency, nullptr, 0, 0, 0}}};
      }
      default:
        return std::nullopt;
    }
  }

  // The column of a projection, or of a norm of its heads.
  std::optional<LinearForm> of_leaf(const Expression& expression) const {
    const bool is_of_heads = leaf_.arguments.size() == 4;
    if (expression.computed != leaf_.computed || expression.arguments.size() != leaf_.arguments.size() ||
        !facts_.is_text(expression.arguments[0], text_axis) || !facts_.is_token(expression.arguments[1], token_axis)) {
      return std::nullopt;
    }
    auto column = known_value(*expression.arguments.back(), indices_);
    if (is_of_heads && column) {
      const auto head = known_value(*expression.arguments[2], indices_);
      if (!head) return std::nullopt;
      column = *head * static_cast<double>(head_size_) + *column;
    }
    if (!column) return std::nullopt;
    return LinearForm{{{*column, {1, {}}}}, std::nullopt};
  }

  // A row for each position.
  std::optional<LinearForm> of_table(const Expression& expression) const {
    const Constant& constant = *expression.constant;
    Wave wave{Wave::Kind::table, 0, &constant, 0, 0, 0};
    for (std::size_t axis = 0; axis < constant.shape.size(); ++axis) {
      const auto size = static_cast<std::size_t>(constant.shape[axis]);
      wave.first *= size;
      wave.stride *= size;
      const ExpressionPointer& at = expression.arguments[axis];
      if (is_axis_index(at, token_axis)) {
        if (wave.positions != 0) return std::nullopt;
        wave.stride = 1;
        wave.positions = size;
        continue;
      }
      const auto index = known_value(*at, indices_);
      if (!index || *index < 0 || *index >= static_cast<double>(size)) return std::nullopt;
      wave.first += static_cast<std::size_t>(*index);
    }
    if (wave.positions == 0) return std::nullopt;
    return LinearForm{{}, Coefficient{1, wave}};
  }

  // Of an angle that is the position times a number.
  std::optional<double> frequency_of(const Expression& angle) const {
    if (angle.kind == Expression::Kind::axis_index && angle.axis == token_axis) return 1;
    if (angle.kind != Expression::Kind::apply) return std::nullopt;
    if (angle.is(Operation::cast))
      return angle.element_type == ElementType::boolean ? std::nullopt : frequency_of(*angle.arguments[0]);
    if (angle.is(Operation::where)) {
      const auto condition = known_value(*angle.arguments[0], indices_);
      return condition ? frequency_of(*angle.arguments[*condition != 0 ? 1 : 2]) : std::nullopt;
    }
    if (angle.element_type != ElementType::float32) return std::nullopt;
    if (angle.is(Operation::multiply)) {
      for (const bool is_first : {true, false}) {
        const auto factor = known_value(*angle.arguments[is_first ? 1 : 0], indices_);
        const auto frequency = factor ? frequency_of(*angle.arguments[is_first ? 0 : 1]) : std::nullopt;
        if (frequency) return *frequency * *factor;
      }
    }
    if (angle.is(Operation::divide)) {
      const auto by = known_value(*angle.arguments[1], indices_);
      const auto frequency = by && *by != 0 ? frequency_of(*angle.arguments[0]) : std::nullopt;
      if (frequency) return *frequency / *by;
    }
    return std::nullopt;
  }

  static std::optional<LinearForm> scaled(std::optional<LinearForm> form, const Coefficient& by) {
    if (!form) return std::nullopt;
    bool fits = true;
    const auto multiply = [&](Coefficient& one) {
      fits = fits && (one.wave.kind == Wave::Kind::none || by.wave.kind == Wave::Kind::none);
      one.factor *= by.factor;
      if (one.wave.kind == Wave::Kind::none) one.wave = by.wave;
    };
    for (Term& term : form->terms) multiply(term.coefficient);
    if (form->scalar) multiply(*form->scalar);
    return fits ? form : std::nullopt;
  }

  static std::optional<LinearForm> added(std::optional<LinearForm> a, const std::optional<LinearForm>& b) {
    if (!a || !b) return std::nullopt;
    if (a->scalar && b->scalar) {
      if (a->scalar->wave.kind != Wave::Kind::none || b->scalar->wave.kind != Wave::Kind::none) return std::nullopt;
      return scalar(a->scalar->factor + b->scalar->factor);
    }
    const auto is_zero = [](const LinearForm& form) { return form.scalar && form.scalar->factor == 0; };
    if (is_zero(*a)) return b;
    if (is_zero(*b)) return a;
    if (a->scalar || b->scalar) return std::nullopt;
    for (const Term& term : b->terms) {
      const auto like = std::ranges::find_if(a->terms, [&](const Term& one) {
        return one.column == term.column && one.coefficient.wave == term.coefficient.wave;
      });
      if (like == a->terms.end()) {
        a->terms.push_back(term);
      } else {
        like->coefficient.factor += term.coefficient.factor;
      }
    }
    return a;
  }

  const Expression& leaf_;
  const std::size_t head_size_;
  const KnownFacts& facts_;
  std::array<double, 4> indices_{};
};

/// What all heads have in common: for each column the coefficient of the own column and, if it is rotated, of another.
struct Rotation {
  std::vector<Coefficient> own, other;
  std::vector<std::size_t> partner;  ///< the other column; the own one if it is not rotated
};

// The columns are relative to the first column of the head, `base`, which the first one tells.
std::optional<Rotation> rotation_of(const std::vector<LinearForm>& columns, double& base) {
  const std::size_t head_size = columns.size();
  Rotation found{std::vector<Coefficient>(head_size), std::vector<Coefficient>(head_size), {}};
  double least = INFINITY;
  for (const LinearForm& form : columns) {
    for (const Term& term : form.terms) least = std::min(least, term.column);
  }
  base = least;
  for (std::size_t column = 0; column < head_size; ++column) {
    std::vector<Term> terms = columns[column].terms;
    std::erase_if(terms, [](const Term& term) { return term.coefficient.factor == 0; });
    if (terms.empty() || terms.size() > 2) return std::nullopt;
    const auto own = std::ranges::find(terms, base + static_cast<double>(column), &Term::column);
    if (own == terms.end()) return std::nullopt;
    found.own[column] = own->coefficient;
    found.partner.push_back(column);
    if (terms.size() == 2) {
      const Term& other = terms[own == terms.begin() ? 1 : 0];
      const double partner = other.column - base;
      if (!(partner >= 0) || partner >= static_cast<double>(head_size)) return std::nullopt;
      found.partner[column] = static_cast<std::size_t>(partner);
      found.other[column] = other.coefficient;
    }
  }
  return found;
}

bool are_same(const Rotation& a, const Rotation& b) {
  const auto same_coefficients = [](const std::vector<Coefficient>& x, const std::vector<Coefficient>& y) {
    return std::ranges::equal(x, y, [](const Coefficient& left, const Coefficient& right) {
      return left.factor == right.factor && left.wave == right.wave;
    });
  };
  return a.partner == b.partner && same_coefficients(a.own, b.own) && same_coefficients(a.other, b.other);
}

bool is_near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

bool is_whole_table(const Wave& wave) {
  return wave.kind == Wave::Kind::table;
}

// Sets the scale and the rotary positions; returns whether it is a rotation of pairs.
bool read_rotation(const Rotation& found, HeadVectors& vectors) {
  const std::size_t head_size = found.own.size();
  std::size_t dimensions = 0;
  while (dimensions < head_size && found.partner[dimensions] != dimensions) ++dimensions;
  for (std::size_t column = dimensions; column < head_size; ++column) {
    if (found.partner[column] != column || found.own[column].wave.kind != Wave::Kind::none ||
        !is_near(found.own[column].factor, found.own[dimensions].factor)) {
      return false;
    }
  }
  if (dimensions < head_size) vectors.scale = found.own[dimensions].factor;
  if (dimensions == 0) return true;
  if (dimensions % 2 != 0) return false;
  const std::size_t pairs = dimensions / 2;
  RecognizedRotary rotary;
  rotary.dimensions = dimensions;
  rotary.interleaved = dimensions > 2 && found.partner[0] == 1;
  const double factor = found.own[0].factor;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const std::size_t first = rotary.interleaved ? 2 * pair : pair,
                      second = rotary.interleaved ? first + 1 : pair + pairs;
    if (found.partner[first] != second || found.partner[second] != first) return false;
    const Coefficient &cosine = found.own[first], &sine = found.other[second], &turned = found.other[first];
    if (!(found.own[second].wave == cosine.wave) || !is_near(found.own[second].factor, cosine.factor) ||
        !(turned.wave == sine.wave) || !is_near(turned.factor, -sine.factor) || !is_near(cosine.factor, factor)) {
      return false;
    }
    if (cosine.wave.kind == Wave::Kind::cosine && sine.wave.kind == Wave::Kind::sine) {
      if (cosine.wave.frequency != sine.wave.frequency || !is_near(std::abs(sine.factor), std::abs(factor)))
        return false;
      rotary.inverse_frequencies.push_back(sine.factor * factor < 0 ? -sine.wave.frequency : sine.wave.frequency);
      continue;
    }
    // Tables are taken as they are, so that a turn in the other direction is none.
    if (!is_whole_table(cosine.wave) || !is_whole_table(sine.wave) || !is_near(sine.factor, factor)) return false;
    if (pair == 0) {
      rotary.cosines = cosine.wave.constant;
      rotary.sines = sine.wave.constant;
      rotary.cosine_stride = cosine.wave.stride;
      rotary.sine_stride = sine.wave.stride;
      rotary.positions = std::min(cosine.wave.positions, sine.wave.positions);
    }
    if (cosine.wave.constant != rotary.cosines || sine.wave.constant != rotary.sines ||
        cosine.wave.stride != rotary.cosine_stride || sine.wave.stride != rotary.sine_stride) {
      return false;
    }
    rotary.cosine_elements.push_back(cosine.wave.first);
    rotary.sine_elements.push_back(sine.wave.first);
  }
  if (!rotary.inverse_frequencies.empty() && !rotary.cosine_elements.empty()) return false;
  if (dimensions == head_size) {
    vectors.scale = factor;
  } else {
    rotary.attention_factor = factor / vectors.scale;
  }
  vectors.rotary = std::move(rotary);
  return true;
}

// The projection that a leaf's columns are, and its norm. `leaf_columns`: of the leaf.
bool read_leaf(const Expression& leaf, const KnownFacts& facts, HeadVectors& vectors) {
  if (facts.as<Projection>(leaf.computed) != nullptr) {
    vectors.projection.of = leaf.computed;
    return true;
  }
  if (const auto* rows = facts.as<NormalizedRows>(leaf.computed)) {
    if (facts.as<Projection>(rows->of) == nullptr) return false;
    vectors.projection.of = rows->of;
    vectors.norm = rows->norm;
    return true;
  }
  const auto* heads = facts.as<NormalizedHeads>(leaf.computed);
  if (heads == nullptr || heads->norm.size != vectors.head_size) return false;
  vectors.projection = heads->projection;
  vectors.norm = heads->norm;
  return true;
}

}  // namespace

std::optional<HeadVectors> head_vectors_of(const ExpressionPointer& expression, std::size_t num_heads,
                                           std::size_t head_size, const KnownFacts& facts, std::string& why) {
  const auto refuse = [&why](const char* reason) -> std::optional<HeadVectors> {
    why = reason;
    return std::nullopt;
  };
  HeadVectors vectors;
  vectors.head_size = head_size;
  const Expression* leaf = single_computed(*expression);
  if (leaf == nullptr || num_heads == 0 || head_size == 0 || !read_leaf(*leaf, facts, vectors))
    return refuse("multiplies heads that are not projections of hidden states");
  const std::size_t leaf_first = vectors.projection.first;
  Linearizer linearizer(*leaf, head_size, facts);
  std::optional<Rotation> first_head;
  std::vector<double> bases;
  std::vector<LinearForm> columns(head_size);
  for (std::size_t head = 0; head < num_heads; ++head) {
    for (std::size_t column = 0; column < head_size; ++column) {
      auto form = linearizer.form_of(*expression, head, column);
      if (!form || form->scalar) return refuse("multiplies heads that are computed in a way that is not understood");
      columns[column] = *std::move(form);
    }
    double base = 0;
    const auto rotation = rotation_of(columns, base);
    if (!rotation || (first_head && !are_same(*first_head, *rotation)))
      return refuse("multiplies heads whose positions are not rotary");
    if (!first_head) first_head = rotation;
    bases.push_back(base);
  }
  // Heads one after the other, each of which may be repeated.
  const auto repeats = static_cast<std::size_t>(std::ranges::count(bases, bases.front()));
  if (num_heads % repeats != 0) return refuse("repeats heads in a way that is not understood");
  for (std::size_t head = 0; head < num_heads; ++head) {
    const std::size_t offset = head / repeats * head_size;
    if (bases[head] != bases.front() + static_cast<double>(offset))
      return refuse("repeats heads in a way that is not understood");
  }
  vectors.num_heads = num_heads / repeats;
  vectors.projection.first = leaf_first + static_cast<std::size_t>(bases.front());
  // A norm over more than the head is over all heads.
  if (vectors.norm && facts.as<NormalizedRows>(leaf->computed) != nullptr &&
      (vectors.norm->size != vectors.num_heads * head_size || bases.front() != 0)) {
    return refuse("normalises something else than the heads of a token");
  }
  if (!first_head || !read_rotation(*first_head, vectors))
    return refuse("multiplies heads whose positions are not rotary");
  return vectors;
}

}  // namespace gpux_cpu::encoder
