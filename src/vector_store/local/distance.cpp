#include "vector_store/local/distance.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace gpux::vector_store {
namespace {

// Eight sums at a time are one register with AVX2; four of them, so that an addition need not wait for the one before.
constexpr std::size_t lanes = 8, chains = 4, step = chains * lanes;
using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));

struct Sums {
  Lanes chain[chains]{};
};

inline __attribute__((always_inline)) void load(Lanes& values, const float* from) {
  std::memcpy(&values, from, sizeof values);
}

inline __attribute__((always_inline)) float sum_of(const Sums& sums) {
  const Lanes all = (sums.chain[0] + sums.chain[1]) + (sums.chain[2] + sums.chain[3]);
  float sum = 0;
  for (std::size_t i = 0; i < lanes; ++i) sum += all[i];
  return sum;
}

inline float finite(float distance) {
  return std::isfinite(distance) ? distance : std::numeric_limits<float>::max();
}

// Calls `add` for eight elements of both vectors at a time, and `add_one` for each of those that are left.
template <typename Add, typename AddOne>
inline __attribute__((always_inline)) void for_elements(const float* left, const float* right, std::size_t dimension,
                                                        const Add& add, const AddOne& add_one) {
  Lanes x, y;
  std::size_t at = 0;
  for (; at + step <= dimension; at += step) {
#pragma GCC unroll 4
    for (std::size_t chain = 0; chain < chains; ++chain) {
      load(x, left + at + chain * lanes);
      load(y, right + at + chain * lanes);
      add(x, y, chain);
    }
  }
  for (; at < dimension; ++at) add_one(left[at], right[at]);
}

#define GPUX_ALWAYS_INLINE __attribute__((always_inline))

inline GPUX_ALWAYS_INLINE float cosine(const float* left, const float* right, std::size_t dimension) {
  Sums products, lefts, rights;
  float product = 0, squares = 0, others = 0;
  for_elements(
      left, right, dimension,
      [&](const Lanes& x, const Lanes& y, std::size_t chain) GPUX_ALWAYS_INLINE {
        products.chain[chain] += x * y;
        lefts.chain[chain] += x * x;
        rights.chain[chain] += y * y;
      },
      [&](float x, float y) GPUX_ALWAYS_INLINE {
        product += x * y;
        squares += x * x;
        others += y * y;
      });
  product += sum_of(products);
  const float lengths = std::sqrt(squares + sum_of(lefts)) * std::sqrt(others + sum_of(rights));
  return finite(lengths == 0 ? 1 : 1 - product / lengths);
}

inline GPUX_ALWAYS_INLINE float dot(const float* left, const float* right, std::size_t dimension) {
  Sums products;
  float product = 0;
  for_elements(
      left, right, dimension,
      [&](const Lanes& x, const Lanes& y, std::size_t chain) GPUX_ALWAYS_INLINE { products.chain[chain] += x * y; },
      [&](float x, float y) GPUX_ALWAYS_INLINE { product += x * y; });
  return finite(-(product + sum_of(products)));
}

inline GPUX_ALWAYS_INLINE float euclidean(const float* left, const float* right, std::size_t dimension) {
  Sums squares;
  float sum = 0;
  for_elements(
      left, right, dimension,
      [&](const Lanes& x, const Lanes& y, std::size_t chain)
          GPUX_ALWAYS_INLINE { squares.chain[chain] += (x - y) * (x - y); },
      [&](float x, float y) GPUX_ALWAYS_INLINE { sum += (x - y) * (x - y); });
  return finite(sum + sum_of(squares));
}

inline GPUX_ALWAYS_INLINE float manhattan(const float* left, const float* right, std::size_t dimension) {
  Sums sums;
  float sum = 0;
  for_elements(
      left, right, dimension,
      [&](const Lanes& x, const Lanes& y, std::size_t chain) GPUX_ALWAYS_INLINE {
        const Lanes difference = x - y;
        sums.chain[chain] += difference < 0 ? -difference : difference;
      },
      [&](float x, float y) GPUX_ALWAYS_INLINE { sum += std::fabs(x - y); });
  return finite(sum + sum_of(sums));
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
#undef GPUX_ALWAYS_INLINE

}  // namespace

Distance distance_of(Similarity similarity, bool is_normalized) {
  if (similarity == Similarity::cosine && is_normalized) similarity = Similarity::dot;
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
