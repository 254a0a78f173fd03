#include "embedding/dense.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace gpux::embedding {
namespace {

using checkpoint::Activation;

float activated(Activation activation, double x) {
  switch (activation) {
    case Activation::tanh:
      return static_cast<float>(std::tanh(x));
    case Activation::relu:
      return static_cast<float>(std::max(x, 0.0));
    case Activation::gelu:
      return static_cast<float>(x / 2 * (1 + std::erf(x / std::numbers::sqrt2)));
    case Activation::gelu_tanh: {
      constexpr double cubic = 0.044715;
      return static_cast<float>(x / 2 * (1 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (x + cubic * x * x * x))));
    }
    case Activation::silu:
      return static_cast<float>(x / (1 + std::exp(-x)));
    case Activation::quick_gelu:
      return static_cast<float>(x / (1 + std::exp(-1.702 * x)));
    case Activation::sigmoid:
      return static_cast<float>(1 / (1 + std::exp(-x)));
    case Activation::identity:
      break;
  }
  return static_cast<float>(x);
}

}  // namespace

std::vector<float> apply_dense(const checkpoint::DenseLayer& layer, std::span<const float> vector) {
  std::vector<float> result(layer.bias.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto row = layer.weights.begin() + static_cast<std::ptrdiff_t>(i * vector.size());
    result[i] = activated(layer.activation,
                          std::inner_product(vector.begin(), vector.end(), row, static_cast<double>(layer.bias[i])));
  }
  return result;
}

}  // namespace gpux::embedding
