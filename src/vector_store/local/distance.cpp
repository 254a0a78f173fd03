#include "vector_store/local/distance.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace gpux::vector_store {
namespace {

// Eight sums at a time: with AVX2 they are one register.
constexpr std::size_t lanes = 8;
using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));

inline __attribute__((always_inline)) void load(Lanes& lanes_of, const float* from) {
  std::memcpy(&lanes_of, from, sizeof lanes_of);
}

inline __attribute__((always_inline)) float sum_of(const Lanes& sums) {
  float sum = 0;
  for (std::size_t i = 0; i < lanes; ++i) sum += sums[i];
  return sum;
}

inline float finite(float distance) {
  return std::isfinite(distance) ? distance : std::numeric_limits<float>::max();
}

inline __attribute__((always_inline)) float cosine(const float* left, const float* right, std::size_t dimension) {
  Lanes products{}, lefts{}, rights{}, x, y;
  std::size_t at = 0;
  for (; at + lanes <= dimension; at += lanes) {
    load(x, left + at);
    load(y, right + at);
    products += x * y;
    lefts += x * x;
    rights += y * y;
  }
  float product = sum_of(products), squares = sum_of(lefts), others = sum_of(rights);
  for (; at < dimension; ++at) {
    product += left[at] * right[at];
    squares += left[at] * left[at];
    others += right[at] * right[at];
  }
  const float lengths = std::sqrt(squares) * std::sqrt(others);
  return finite(lengths == 0 ? 1 : 1 - product / lengths);
}

inline __attribute__((always_inline)) float dot(const float* left, const float* right, std::size_t dimension) {
  Lanes products{}, x, y;
  std::size_t at = 0;
  for (; at + lanes <= dimension; at += lanes) {
    load(x, left + at);
    load(y, right + at);
    products += x * y;
  }
  float product = sum_of(products);
  for (; at < dimension; ++at) product += left[at] * right[at];
  return finite(-product);
}

inline __attribute__((always_inline)) float euclidean(const float* left, const float* right, std::size_t dimension) {
  Lanes squares{}, x, y;
  std::size_t at = 0;
  for (; at + lanes <= dimension; at += lanes) {
    load(x, left + at);
    load(y, right + at);
    squares += (x - y) * (x - y);
  }
  float sum = sum_of(squares);
  for (; at < dimension; ++at) sum += (left[at] - right[at]) * (left[at] - right[at]);
  return finite(sum);
}

inline __attribute__((always_inline)) float manhattan(const float* left, const float* right, std::size_t dimension) {
  Lanes sums{}, x, y;
  std::size_t at = 0;
  for (; at + lanes <= dimension; at += lanes) {
    load(x, left + at);
    load(y, right + at);
    const Lanes difference = x - y;
    sums += difference < 0 ? -difference : difference;
  }
  float sum = sum_of(sums);
  for (; at < dimension; ++at) sum += std::fabs(left[at] - right[at]);
  return finite(sum);
}

#define GPUX_DISTANCE(name)                                                                    \
  float plain_##name(const float* left, const float* right, std::size_t dimension) {           \
    return name(left, right, dimension);                                                       \
  }                                                                                            \
  __attribute__((target("avx2,fma"))) float avx2_##name(const float* left, const float* right, \
                                                        std::size_t dimension) {               \
    return name(left, right, dimension);                                                       \
  }
GPUX_DISTANCE(cosine)
GPUX_DISTANCE(dot)
GPUX_DISTANCE(euclidean)
GPUX_DISTANCE(manhattan)
#undef GPUX_DISTANCE

}  // namespace

Distance distance_of(Similarity similarity) {
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  switch (similarity) {
    case Similarity::dot:
      return has_avx2 ? avx2_dot : plain_dot;
    case Similarity::euclidean:
      return has_avx2 ? avx2_euclidean : plain_euclidean;
    case Similarity::manhattan:
      return has_avx2 ? avx2_manhattan : plain_manhattan;
    default:
      return has_avx2 ? avx2_cosine : plain_cosine;
  }
}

}  // namespace gpux::vector_store
