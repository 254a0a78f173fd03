#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/runtime.h"

namespace gpux {
namespace {

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

std::int64_t size_of(const SignatureEntry& entry, const Dimension& dimension, std::size_t index, const Sizes& sizes) {
  if (dimension.size) return *dimension.size;
  for (const auto& [name, size] : sizes) {
    if ((!dimension.name.empty() && name == dimension.name) || name == fmt::format("{}.{}", entry.name, index)) {
      return size;
    }
  }
  return 1;
}

std::uint16_t half_bits(float value) {
  // Exact for the multiples of 1/256 in [0, 1) that it is given.
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // [0.5, 1)
  return static_cast<std::uint16_t>(((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 0x3ff));
}

template <typename T, typename Draw>
void fill(Tensor& tensor, Draw draw) {
  auto* values = reinterpret_cast<T*>(tensor.mutable_bytes().data());
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) values[i] = static_cast<T>(draw());
}

void fill(Tensor& tensor, std::mt19937_64& random) {
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto bit = [&] { return random() & 1; };
  const auto coarse = [&] { return static_cast<float>(random() & 0xff) / 256; };
  switch (tensor.type()) {
    case ElementType::float32:
      return fill<float>(tensor, unit);
    case ElementType::float64:
      return fill<double>(tensor, unit);
    case ElementType::float16:
      return fill<std::uint16_t>(tensor, [&] { return half_bits(coarse()); });
    case ElementType::bfloat16:
      return fill<std::uint16_t>(tensor, [&] {
        const float value = coarse();
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        return bits >> 16;
      });
    case ElementType::int8:
    case ElementType::uint8:
    case ElementType::boolean:
      return fill<std::uint8_t>(tensor, bit);
    case ElementType::int16:
    case ElementType::uint16:
      return fill<std::uint16_t>(tensor, bit);
    case ElementType::int32:
    case ElementType::uint32:
      return fill<std::uint32_t>(tensor, bit);
    case ElementType::int64:
    case ElementType::uint64:
      return fill<std::uint64_t>(tensor, bit);
    case ElementType::string:
      std::fill(tensor.mutable_strings().begin(), tensor.mutable_strings().end(), "a");
      return;
    case ElementType::complex64:
    case ElementType::complex128:
    case ElementType::undefined:
      throw Error(ErrorCode::invalid_input, fmt::format("{} values cannot be made up", to_string(tensor.type())));
    default:
      return;  // 8 bits and less of floats: zero is a value of all of them
  }
}

Tensor make_tensor(ElementType element, Shape shape, std::mt19937_64& random) {
  Tensor tensor = Tensor::allocate(element, std::move(shape));
  fill(tensor, random);
  return tensor;
}

Value make(const SignatureEntry& entry, const ValueType& type, const Sizes& sizes, std::mt19937_64& random) {
  switch (type.kind) {
    case ValueKind::tensor: {
      Shape shape;
      if (type.dimensions) {
        for (std::size_t i = 0; i < type.dimensions->size(); ++i)
          shape.push_back(size_of(entry, (*type.dimensions)[i], i, sizes));
      }
      return make_tensor(type.element, std::move(shape), random);
    }
    case ValueKind::optional:
      return std::monostate{};
    case ValueKind::sequence:
      if (!type.inner.empty()) return Sequence{{make(entry, type.inner.front(), sizes, random)}};
      break;
    case ValueKind::map:
      if (!type.inner.empty()) {
        return Map{make_tensor(type.element, {1}, random), make_tensor(type.inner.front().element, {1}, random)};
      }
      break;
    case ValueKind::sparse_tensor:
    case ValueKind::opaque:
      break;
  }
  throw Error(ErrorCode::invalid_input,
              format_message("input '{}' is {}, which cannot be made up: give it a value ({})", entry.name,
                             to_string(type), setting_named("input")));
}

// The dimensions that make() gives sizes; null where there are none.
const std::vector<Dimension>* made_dimensions(const ValueType& type) {
  if (type.kind == ValueKind::sequence && !type.inner.empty()) return made_dimensions(type.inner.front());
  return type.kind == ValueKind::tensor && type.dimensions ? &*type.dimensions : nullptr;
}

void check_names(const Signature& signature, const Sizes& sizes) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : signature.inputs) {
    const std::vector<Dimension>* dimensions = made_dimensions(entry.type);
    if (dimensions == nullptr) continue;
    for (std::size_t i = 0; i < dimensions->size(); ++i) {
      const Dimension& dimension = (*dimensions)[i];
      if (dimension.size) continue;
      if (!dimension.name.empty()) names.push_back(dimension.name);
      names.push_back(fmt::format("{}.{}", entry.name, i));
    }
  }
  for (const auto& [name, size] : sizes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::usage, fmt::format("no input has a free dimension '{}'; {}", name,
                                                names.empty() ? "all sizes are fixed" : "free: " + join(names)));
    }
  }
}

}  // namespace

NamedValues synthetic_inputs(const Signature& signature, const Sizes& sizes, std::uint64_t seed) {
  check_names(signature, sizes);
  std::mt19937_64 random(seed);
  NamedValues inputs;
  for (const SignatureEntry& entry : signature.inputs) {
    if (!entry.required) continue;
    inputs.emplace_back(entry.name, make(entry, entry.type, sizes, random));
  }
  return inputs;
}

}  // namespace gpux
