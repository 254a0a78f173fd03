#include "recognizer/operation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpux_encoder {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// As ONNX Runtime's kernels have it: float32 is rounded after each step.
double rounded(double value, Element element) {
  return element == Element::float32 ? static_cast<double>(static_cast<float>(value)) : value;
}

double divided(double a, double b, Element element) {
  if (!is_integer(element)) return a / b;
  return b == 0 ? nothing : std::trunc(a / b);
}

double cast_to(double value, Element element) {
  if (element == Element::boolean) return value != 0 ? 1 : 0;
  return is_integer(element) ? std::trunc(value) : value;
}

}  // namespace

bool is_integer(Element element) {
  return element == Element::int64 || element == Element::int32 || element == Element::boolean;
}

double calculated(Operation operation, Element element, std::span<const double> x) {
  const auto single = [&](double (*function)(double)) { return rounded(function(x[0]), element); };
  switch (operation) {
    case Operation::add:
      return rounded(x[0] + x[1], element);
    case Operation::subtract:
      return rounded(x[0] - x[1], element);
    case Operation::multiply:
      return rounded(x[0] * x[1], element);
    case Operation::divide:
      return rounded(divided(x[0], x[1], element), element);
    case Operation::power:
      return rounded(std::pow(x[0], x[1]), element);
    case Operation::least:
      return std::min(x[0], x[1]);
    case Operation::greatest:
      return std::max(x[0], x[1]);
    case Operation::equal:
      return x[0] == x[1] ? 1 : 0;
    case Operation::less:
      return x[0] < x[1] ? 1 : 0;
    case Operation::less_or_equal:
      return x[0] <= x[1] ? 1 : 0;
    case Operation::both:
      return x[0] != 0 && x[1] != 0 ? 1 : 0;
    case Operation::either:
      return x[0] != 0 || x[1] != 0 ? 1 : 0;
    case Operation::negate:
      return x[0] == 0 ? 1 : 0;
    case Operation::where:
      return x[0] != 0 ? x[1] : x[2];
    case Operation::cast:
      return rounded(cast_to(x[0], element), element);
    case Operation::minus:
      return -x[0];
    case Operation::magnitude:
      return std::abs(x[0]);
    case Operation::logarithm:
      return single(std::log);
    case Operation::square_root:
      return single(std::sqrt);
    case Operation::reciprocal:
      return rounded(1 / x[0], element);
    case Operation::error_function:
      return single(std::erf);
    case Operation::tangent:
      return single(std::tanh);
    case Operation::sigmoid:
      return rounded(1 / (1 + std::exp(-x[0])), element);
    case Operation::floor:
      return std::floor(x[0]);
    case Operation::is_nan:
      return std::isnan(x[0]) ? 1 : 0;
    case Operation::remainder:
      return x[1] == 0 ? nothing : std::fmod(x[0], x[1]);
  }
  return nothing;
}

}  // namespace gpux_encoder
