#include "recognizer/operation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpux_cpu::encoder {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// As ONNX Runtime's kernels have it: float32 is rounded after each step.
double rounded(double value, ElementType element_type) {
  return element_type == ElementType::float32 ? static_cast<double>(static_cast<float>(value)) : value;
}

double divided(double a, double b, ElementType element_type) {
  if (!is_integer(element_type)) return a / b;
  return b == 0 ? nothing : std::trunc(a / b);
}

double cast_to(double value, ElementType element_type) {
  if (element_type == ElementType::boolean) return value != 0 ? 1 : 0;
  return is_integer(element_type) ? std::trunc(value) : value;
}

}  // namespace

bool is_integer(ElementType element_type) {
  return element_type == ElementType::int64 || element_type == ElementType::int32 ||
         element_type == ElementType::boolean;
}

double calculated(Operation operation, ElementType element_type, std::span<const double> x) {
  const auto single = [&](double (*function)(double)) { return rounded(function(x[0]), element_type); };
  switch (operation) {
    case Operation::add:
      return rounded(x[0] + x[1], element_type);
    case Operation::subtract:
      return rounded(x[0] - x[1], element_type);
    case Operation::multiply:
      return rounded(x[0] * x[1], element_type);
    case Operation::divide:
      return rounded(divided(x[0], x[1], element_type), element_type);
    case Operation::power:
      return rounded(std::pow(x[0], x[1]), element_type);
    case Operation::minimum:
      return std::min(x[0], x[1]);
    case Operation::maximum:
      return std::max(x[0], x[1]);
    case Operation::equal:
      return x[0] == x[1] ? 1 : 0;
    case Operation::less:
      return x[0] < x[1] ? 1 : 0;
    case Operation::less_or_equal:
      return x[0] <= x[1] ? 1 : 0;
    case Operation::logical_and:
      return x[0] != 0 && x[1] != 0 ? 1 : 0;
    case Operation::logical_or:
      return x[0] != 0 || x[1] != 0 ? 1 : 0;
    case Operation::logical_not:
      return x[0] == 0 ? 1 : 0;
    case Operation::where:
      return x[0] != 0 ? x[1] : x[2];
    case Operation::cast:
      return rounded(cast_to(x[0], element_type), element_type);
    case Operation::negate:
      return -x[0];
    case Operation::absolute:
      return std::abs(x[0]);
    case Operation::log:
      return single(std::log);
    case Operation::sqrt:
      return single(std::sqrt);
    case Operation::reciprocal:
      return rounded(1 / x[0], element_type);
    case Operation::erf:
      return single(std::erf);
    case Operation::tanh:
      return single(std::tanh);
    case Operation::sigmoid:
      return rounded(1 / (1 + std::exp(-x[0])), element_type);
    case Operation::floor:
      return std::floor(x[0]);
    case Operation::ceil:
      return std::ceil(x[0]);
    case Operation::round:
      return std::nearbyint(x[0]);
    case Operation::sign:
      return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0];
    case Operation::exp:
      return single(std::exp);
    case Operation::softplus:
      return rounded(std::log1p(std::exp(x[0])), element_type);
    case Operation::cosine:
      return single(std::cos);
    case Operation::sine:
      return single(std::sin);
    case Operation::is_nan:
      return std::isnan(x[0]) ? 1 : 0;
    case Operation::remainder:
      return x[1] == 0 ? nothing : std::fmod(x[0], x[1]);
  }
  return nothing;
}

}  // namespace gpux_cpu::encoder
