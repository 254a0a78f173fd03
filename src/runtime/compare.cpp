#include "runtime/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "tensor/packed.h"
#include "tensor/small_float.h"

namespace gpux::runtime {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A difference while it grows over the tensors of a value.
struct Tally {
  Difference difference;
  long double dot = 0, expected_square = 0, got_square = 0;  // squares of the largest doubles fit

  void fail(const std::string& place, std::string_view reason) {
    difference.within = false;
    if (!difference.reason.empty()) return;
    difference.reason = place.empty() ? std::string(reason) : fmt::format("{}: {}", place, reason);
  }

  void add_distance(double distance, double expected) {
    difference.max_absolute = std::max(difference.max_absolute, distance);
    if (expected != 0 && std::isfinite(expected)) {
      difference.max_relative = std::max(difference.max_relative, distance / std::abs(expected));
    }
  }

  void add_to_cosine(double expected, double got) {
    dot += static_cast<long double>(expected) * got;
    expected_square += static_cast<long double>(expected) * expected;
    got_square += static_cast<long double>(got) * got;
  }

  [[nodiscard]] double cosine() const {
    if (expected_square == 0 || got_square == 0) return expected_square == got_square ? 1 : 0;
    // One root of the product: exactly 1 for equal values.
    return static_cast<double>(std::clamp(dot / std::sqrt(expected_square * got_square), -1.0L, 1.0L));
  }
};

std::string place_of(std::int64_t index, const Shape& shape) {
  std::string place;
  for (std::size_t i = shape.size(); i-- > 0;) {
    place = fmt::format("[{}]", index % shape[i]) + place;
    index /= shape[i];
  }
  return place;
}

// One pair of numbers; whether it is near enough.
template <typename T>
bool add_pair(T expected, T got, const Tolerance& tolerance, Tally& tally) {
  const auto wide_expected = static_cast<double>(expected);
  const auto wide_got = static_cast<double>(got);
  if (std::isfinite(wide_expected) && std::isfinite(wide_got)) {
    tally.add_to_cosine(wide_expected, wide_got);
    if (expected == got) return true;
    double distance = std::abs(wide_got - wide_expected);
    if constexpr (std::is_integral_v<T>) {
      // Large integers that differ may be the same double.
      distance = std::max(distance, 1.0);
    }
    tally.add_distance(distance, wide_expected);
    return distance <= tolerance.absolute + tolerance.relative * std::abs(wide_expected);
  }
  if (expected == got || (std::isnan(wide_expected) && std::isnan(wide_got))) return true;
  tally.difference.max_absolute = infinity;
  return false;
}

// Whether NaN carries a sign says nothing.
template <typename T>
std::string text_of(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(number)) return "NaN";
  }
  return fmt::format("{}", number);
}

template <typename At>
void add_numbers(const Tensor& tensor, const Tolerance& tolerance, const std::string& place, Tally& tally,
                 const At& pair_at) {
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    const auto [expected, got] = pair_at(static_cast<std::size_t>(i));
    ++tally.difference.elements;
    if (add_pair(expected, got, tolerance, tally)) continue;
    ++tally.difference.mismatches;
    if (tally.difference.within) {
      tally.fail(place + place_of(i, tensor.shape()),
                 fmt::format("{} where {} was expected", text_of(got), text_of(expected)));
    }
  }
}

template <typename T>
void add_array(const Tensor& expected, const Tensor& got, const Tolerance& tolerance, const std::string& place,
               Tally& tally) {
  const auto* expected_values = reinterpret_cast<const T*>(expected.bytes().data());
  const auto* got_values = reinterpret_cast<const T*>(got.bytes().data());
  add_numbers(expected, tolerance, place, tally,
              [&](std::size_t i) { return std::pair(expected_values[i], got_values[i]); });
}

// Elements of at most 16 bits that C++ has no type for.
template <typename Decode>
void add_decoded(const Tensor& expected, const Tensor& got, const Tolerance& tolerance, const std::string& place,
                 Tally& tally, const Decode& decode) {
  const std::size_t bits = bits_of(expected.type());
  const auto element = [&](const Tensor& tensor, std::size_t i) -> std::uint16_t {
    if (bits == 16) return reinterpret_cast<const std::uint16_t*>(tensor.bytes().data())[i];
    return packed_element(tensor.bytes(), i, bits);
  };
  add_numbers(expected, tolerance, place, tally,
              [&](std::size_t i) { return std::pair(decode(element(expected, i)), decode(element(got, i))); });
}

void add_strings(const Tensor& expected, const Tensor& got, const std::string& place, Tally& tally) {
  for (std::size_t i = 0; i < expected.strings().size(); ++i) {
    ++tally.difference.elements;
    if (expected.strings()[i] == got.strings()[i]) continue;
    ++tally.difference.mismatches;
    if (tally.difference.within) {
      tally.fail(place + place_of(static_cast<std::int64_t>(i), expected.shape()),
                 fmt::format("'{}' where '{}' was expected", utf8_prefix(got.strings()[i], 40),
                             utf8_prefix(expected.strings()[i], 40)));
    }
  }
}

std::string described(const Tensor& tensor) {
  return fmt::format("{}{}", to_string(tensor.type()), to_string(std::span<const std::int64_t>(tensor.shape())));
}

void add_tensors(const Tensor& expected, const Tensor& got, const ToleranceOf& tolerance_of, const std::string& place,
                 Tally& tally) {
  const ElementType type = expected.type();
  if (type != got.type() || expected.shape() != got.shape()) {
    tally.fail(place, fmt::format("{} where {} was expected", described(got), described(expected)));
    return;
  }
  const Tolerance tolerance = tolerance_of(type);
  const auto array = [&]<typename T>(T /*zero*/) { add_array<T>(expected, got, tolerance, place, tally); };
  switch (type) {
    case ElementType::float32:
      return array(float{});
    case ElementType::float64:
      return array(double{});
    case ElementType::int8:
      return array(std::int8_t{});
    case ElementType::int16:
      return array(std::int16_t{});
    case ElementType::int32:
      return array(std::int32_t{});
    case ElementType::int64:
      return array(std::int64_t{});
    case ElementType::uint8:
      return array(std::uint8_t{});
    case ElementType::uint16:
      return array(std::uint16_t{});
    case ElementType::uint32:
      return array(std::uint32_t{});
    case ElementType::uint64:
      return array(std::uint64_t{});
    case ElementType::boolean:
      return add_decoded(expected, got, {}, place, tally, [](std::uint16_t bits) { return bits == 0 ? 0 : 1; });
    case ElementType::int2:
    case ElementType::int4:
      return add_decoded(expected, got, tolerance, place, tally, [&](std::uint16_t bits) {
        return static_cast<int>(sign_extended(static_cast<std::uint8_t>(bits), bits_of(type)));
      });
    case ElementType::uint2:
    case ElementType::uint4:
      return add_decoded(expected, got, tolerance, place, tally, [](std::uint16_t bits) { return int{bits}; });
    case ElementType::string:
      return add_strings(expected, got, place, tally);
    case ElementType::undefined:
    case ElementType::complex64:
    case ElementType::complex128:
      tally.fail(place, fmt::format("{} tensors are not compared", to_string(type)));
      return;
    default:
      return add_decoded(expected, got, tolerance, place, tally,
                         [&](std::uint16_t bits) { return small_float_value(type, bits); });
  }
}

const char* kind_of(const Value& value) {
  if (value.tensor() != nullptr) return "a tensor";
  if (value.sequence() != nullptr) return "a sequence";
  if (value.map() != nullptr) return "a map";
  return "nothing";
}

void add_values(const Value& expected, const Value& got, const ToleranceOf& tolerance, const std::string& place,
                Tally& tally) {
  if (expected.index() != got.index()) {
    tally.fail(place, fmt::format("{} where {} was expected", kind_of(got), kind_of(expected)));
    return;
  }
  if (const Tensor* tensor = expected.tensor()) return add_tensors(*tensor, *got.tensor(), tolerance, place, tally);
  if (const Map* map = expected.map()) {
    add_tensors(
        map->keys, got.map()->keys, [](ElementType) { return Tolerance{}; }, place.empty() ? "keys" : place + " keys",
        tally);
    return add_tensors(map->values, got.map()->values, tolerance, place, tally);
  }
  const Sequence* sequence = expected.sequence();
  if (sequence == nullptr) return;
  const std::vector<Value>& got_values = got.sequence()->values;
  if (sequence->values.size() != got_values.size()) {
    tally.fail(place, fmt::format("a sequence of {} where one of {} was expected", got_values.size(),
                                  sequence->values.size()));
    return;
  }
  for (std::size_t i = 0; i < got_values.size(); ++i) {
    add_values(sequence->values[i], got_values[i], tolerance, fmt::format("{}[{}]", place, i), tally);
  }
}

}  // namespace

Tolerance provider_tolerance(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return {1e-4, 1e-3};
    case ElementType::float64:
      return {1e-9, 1e-7};
    case ElementType::float16:  // 10 bits behind the point: 8 units in the last place
      return {1e-3, 0x1p-7};
    case ElementType::bfloat16:  // 7 bits: 4 units
      return {1e-2, 0x1p-5};
    case ElementType::float8e4m3fn:  // 3 bits: the neighbouring value
    case ElementType::float8e4m3fnuz:
      return {0x1p-9, 0x1p-3};
    case ElementType::float8e5m2:  // 2 bits
    case ElementType::float8e5m2fnuz:
      return {0x1p-16, 0x1p-2};
    case ElementType::float4e2m1:  // 1 bit, and zero's neighbour is 0.5
      return {0.5, 0.5};
    case ElementType::float8e8m0:  // powers of two
      return {0, 1};
    default:
      return {};
  }
}

Tolerance suite_tolerance(ElementType type) {
  switch (type) {
    case ElementType::bfloat16:
      return {1e-7, 0x1p-6};
    case ElementType::float16:
    case ElementType::float32:
    case ElementType::float64:
    case ElementType::float8e4m3fn:
    case ElementType::float8e4m3fnuz:
    case ElementType::float8e5m2:
    case ElementType::float8e5m2fnuz:
    case ElementType::float8e8m0:
    case ElementType::float4e2m1:
      return {1e-7, 1e-3};
    default:
      return {};
  }
}

Difference compare(const Value& expected, const Value& got, const ToleranceOf& tolerance) {
  Tally tally;
  add_values(expected, got, tolerance, "", tally);
  tally.difference.cosine = tally.cosine();
  if (tally.difference.mismatches > 1) {
    tally.difference.reason +=
        fmt::format(" ({} of {} elements differ)", tally.difference.mismatches, tally.difference.elements);
  }
  return tally.difference;
}

}  // namespace gpux::runtime
