#include "recognizer/dimension.h"

namespace gpux_cpu::encoder {
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

std::optional<Monomial> times(const std::optional<Monomial>& a, const Monomial& b) {
  if (!a || a->factor < 0 || b.factor < 0 || (a->factor > 0 && b.factor > max_size / a->factor)) return std::nullopt;
  return Monomial{a->factor * b.factor, a->texts + b.texts, a->positions + b.positions};
}

std::optional<Dimension> over(const Monomial& whole, const Monomial& part) {
  if (part.factor < 1 || whole.factor < 0 || whole.factor % part.factor != 0) return std::nullopt;
  return dimension_of({whole.factor / part.factor, whole.texts - part.texts, whole.positions - part.positions});
}

// Such as batch * sequence * sequence, which is no dimension.
std::optional<Monomial> elements_of(const Shape& shape) {
  std::optional<Monomial> product = Monomial{};
  for (const Dimension& size : shape) product = times(product, monomial_of(size));
  return product;
}

}  // namespace

std::optional<Dimension> product_of(const Dimension& a, const Dimension& b) {
  const auto product = times(monomial_of(a), monomial_of(b));
  return product ? dimension_of(*product) : std::nullopt;
}

std::optional<Dimension> quotient_of(const Dimension& product, const Dimension& factor) {
  return over(monomial_of(product), monomial_of(factor));
}

std::optional<Dimension> remaining_of(const Shape& whole, const Shape& given) {
  const auto all = elements_of(whole), part = elements_of(given);
  return all && part ? over(*all, *part) : std::nullopt;
}

}  // namespace gpux_cpu::encoder
