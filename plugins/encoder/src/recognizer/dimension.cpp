#include "recognizer/dimension.h"

namespace gpux_encoder {
namespace {

using Kind = Dimension::Kind;

constexpr std::int64_t max_size = std::int64_t{1} << 40;

/// A size as factor * batch^texts * sequence^positions.
struct Monomial {
  std::int64_t factor = 1;
  int texts = 0, positions = 0;
};

Monomial monomial_of(const Dimension& dimension) {
  switch (dimension.kind) {
    case Kind::fixed:
      return {dimension.value, 0, 0};
    case Kind::batch:
      return {dimension.factor, 1, 0};
    case Kind::sequence:
      return {dimension.factor, 0, 1};
    case Kind::tokens:
      break;
  }
  return {dimension.factor, 1, 1};
}

std::optional<Dimension> dimension_of(const Monomial& size) {
  if (size.texts == 0 && size.positions == 0) return fixed(size.factor);
  if (size.factor < 1 || size.texts < 0 || size.positions < 0 || size.texts > 1 || size.positions > 1)
    return std::nullopt;
  const Kind kind = size.texts == 0 ? Kind::sequence : size.positions == 0 ? Kind::batch : Kind::tokens;
  return Dimension{kind, 0, size.factor};
}

}  // namespace

std::optional<Dimension> product_of(const Dimension& a, const Dimension& b) {
  const Monomial left = monomial_of(a), right = monomial_of(b);
  if (left.factor < 0 || right.factor < 0 || (left.factor > 0 && right.factor > max_size / left.factor))
    return std::nullopt;
  return dimension_of({left.factor * right.factor, left.texts + right.texts, left.positions + right.positions});
}

std::optional<Dimension> quotient_of(const Dimension& product, const Dimension& factor) {
  const Monomial whole = monomial_of(product), part = monomial_of(factor);
  if (part.factor < 1 || whole.factor < 0 || whole.factor % part.factor != 0) return std::nullopt;
  return dimension_of({whole.factor / part.factor, whole.texts - part.texts, whole.positions - part.positions});
}

}  // namespace gpux_encoder
