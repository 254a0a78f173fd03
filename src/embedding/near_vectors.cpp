#include "embedding/near_vectors.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::embedding {

double rounding_of(std::string_view precision) noexcept {
  // Quantized activations are rounded by the range of all tokens of a run.
  return precision == "fp32" || precision == "tf32" || precision == "fp16" ? 0.01 : 0.1;
}

bool are_near(const Value& expected, const Value& got, double rounding) {
  const Tensor *a = expected.tensor(), *b = got.tensor();
  if (a == nullptr || b == nullptr || a->type() != b->type() || a->shape().size() != b->shape().size()) return false;
  if (a->type() == ElementType::string || a->shape().empty()) return a->shape() == b->shape();
  const bool has_tokens = a->shape().size() > 2;
  for (std::size_t i = 0; i < a->shape().size(); ++i) {
    const bool is_longer = has_tokens && i == 1 && b->shape()[i] > a->shape()[i];
    if (a->shape()[i] != b->shape()[i] && !is_longer) return false;
  }
  if (a->shape().front() != 1) return false;
  const Tensor left = convert(*a, ElementType::float32), right = convert(*b, ElementType::float32);
  const std::span<const float> x = left.as<float>(), y = right.as<float>().first(x.size());
  double distance = 0, length = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    distance += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    length += static_cast<double>(x[i]) * x[i];
  }
  return std::sqrt(distance) <= rounding * std::sqrt(length);  // false for NaN
}

}  // namespace gpux::embedding
