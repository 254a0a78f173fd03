#include "runtime/sharing/trial_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "tensor/small_float.h"

namespace gpux::runtime {
namespace {

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::int64_t max_row_elements = std::int64_t{1} << 22;

std::span<const Dimension> dimensions_of(const SignatureEntry& entry) {
  if (!entry.type.dimensions) return {};
  return *entry.type.dimensions;
}

/// Sizes by the name of a dimension, or by the position of one without a name.
class SizeGuess {
 public:
  /// The size of the dimension of number `index`, counted from 0 as they are met.
  using NewSize = std::int64_t (*)(std::size_t index);

  SizeGuess(const Sizes& given, NewSize new_size) : given_(given), new_size_(new_size) {}

  RowShapes shapes(const Signature& signature) {
    // Sums refer to names, which may be met later.
    for (const SignatureEntry& entry : signature.inputs) {
      for (std::size_t i = 1; i < dimensions_of(entry).size(); ++i) {
        const Dimension& dimension = dimensions_of(entry)[i];
        if (!dimension.size && !is_sum(dimension.name)) (void)size_of(entry, i);
      }
    }
    RowShapes shapes;
    for (const SignatureEntry& entry : signature.inputs) {
      Shape shape;
      for (std::size_t i = 1; i < dimensions_of(entry).size(); ++i) {
        const std::optional<std::int64_t> declared = dimensions_of(entry)[i].size;
        shape.push_back(declared ? *declared : size_of(entry, i));
      }
      shapes.push_back(std::move(shape));
    }
    return shapes;
  }

 private:
  static bool is_sum(const std::string& name) { return name.find('+') != std::string::npos; }

  std::int64_t size_of(const SignatureEntry& entry, std::size_t position) {
    const std::string& name = dimensions_of(entry)[position].name;
    const std::string own = fmt::format("{}.{}", entry.name, position);
    for (const auto& [dimension, size] : given_) {
      if ((!name.empty() && dimension == name) || dimension == own) return size;
    }
    if (is_sum(name)) {
      if (const auto sum = sum_of(name)) return *sum;
    }
    const std::string key = name.empty() ? fmt::format(".{}", position) : name;
    for (const auto& [known, size] : known_) {
      if (known == key) return size;
    }
    known_.emplace_back(key, new_size_(known_.size()));
    return known_.back().second;
  }

  [[nodiscard]] std::optional<std::int64_t> size_named(const std::string& name) const {
    for (const Sizes* sizes : {&given_, &known_}) {
      for (const auto& [known, size] : *sizes) {
        if (known == name) return size;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::int64_t> sum_of(const std::string& name) const {
    std::int64_t sum = 0;
    for (const std::string& part : split(name, '+')) {
      if (const auto size = size_named(part)) {
        sum += *size;
      } else if (!part.empty() && part.size() < 6 &&
                 std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        sum += std::stoll(part);
      } else {
        return std::nullopt;
      }
    }
    return sum;
  }

  const Sizes& given_;
  NewSize new_size_;
  Sizes known_;
};

std::int64_t small_prime(std::size_t index) {
  constexpr std::array<std::int64_t, 8> primes{7, 13, 17, 19, 23, 29, 31, 37};
  return primes[index % primes.size()];
}

std::int64_t multiple_of_32(std::size_t index) {
  return 32 * (2 + static_cast<std::int64_t>(index % 4));
}

std::int64_t usual_image_side(std::size_t /*index*/) {
  return 224;
}

std::int64_t one(std::size_t /*index*/) {
  return 1;
}

bool is_small(const RowShapes& shapes) {
  return std::all_of(shapes.begin(), shapes.end(), [](const Shape& shape) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) {
      if (size < 0 || (size != 0 && elements > max_row_elements / size)) return false;
      elements *= size;
    }
    return true;
  });
}

double decimal(std::mt19937_64& random, TrialNumbers numbers, Magnitude magnitude) {
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  if (numbers == TrialNumbers::positive) return magnitude == Magnitude::zero ? 0.5 : unit;
  switch (magnitude) {
    case Magnitude::large:
      return 100 + 80 * unit;
    case Magnitude::negative:
      return -60 - 50 * unit;
    case Magnitude::zero:
      return 0;
    case Magnitude::usual:
      break;
  }
  return 3 * unit - 1;
}

// Of an input that holds flags by its name: masks, token types.
bool holds_flags(std::string_view name) {
  const std::string text = lower(name);
  return text.find("mask") != std::string::npos || text.find("type") != std::string::npos;
}

std::uint64_t whole(std::mt19937_64& random, TrialNumbers numbers, ElementType type, bool flags) {
  if (numbers == TrialNumbers::positive) return 1;
  const std::uint64_t drawn = random() >> 20;
  if (numbers == TrialNumbers::flags || flags) return drawn & 1;
  // Levels of an image, never an index.
  return type == ElementType::uint8 ? drawn & 0xff : drawn % 7;
}

template <typename T, typename Draw>
void fill(Tensor& tensor, Draw draw) {
  auto* values = reinterpret_cast<T*>(tensor.mutable_bytes().data());
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) values[i] = static_cast<T>(draw());
}

void fill_strings(Tensor& tensor, TrialNumbers numbers, std::mt19937_64& random) {
  constexpr std::array<const char*, 6> words{"a", "is it", "one more word", "B", "no", "a, b; c"};
  for (std::string& text : tensor.mutable_strings()) {
    const std::uint64_t drawn = random() >> 20;
    text = numbers == TrialNumbers::positive ? std::to_string(drawn % 10) : words[drawn % words.size()];
  }
}

void fill(Tensor& tensor, std::string_view name, TrialNumbers numbers, Magnitude magnitude, std::mt19937_64& random) {
  const ElementType type = tensor.type();
  const auto real = [&] { return decimal(random, numbers, magnitude); };
  const auto integer = [&] { return whole(random, numbers, type, holds_flags(name)); };
  switch (type) {
    case ElementType::float32:
      return fill<float>(tensor, real);
    case ElementType::float64:
      return fill<double>(tensor, real);
    case ElementType::float16:
    case ElementType::bfloat16:
      return fill<std::uint16_t>(tensor, [&] { return round_to_small_float(type, real()).bits; });
    case ElementType::boolean:
      return fill<std::uint8_t>(tensor, [&] { return (random() >> 20) & 1; });
    case ElementType::int8:
    case ElementType::uint8:
      return fill<std::uint8_t>(tensor, integer);
    case ElementType::int16:
    case ElementType::uint16:
      return fill<std::uint16_t>(tensor, integer);
    case ElementType::int32:
    case ElementType::uint32:
      return fill<std::uint32_t>(tensor, integer);
    case ElementType::int64:
    case ElementType::uint64:
      return fill<std::uint64_t>(tensor, integer);
    case ElementType::string:
      return fill_strings(tensor, numbers, random);
    default:
      throw Error(ErrorCode::invalid_input, fmt::format("{} values are not made up", to_string(type)));
  }
}

}  // namespace

std::vector<RowShapes> guess_row_shapes(const Signature& signature, const std::vector<Sizes>& given) {
  std::vector<RowShapes> guesses;
  const auto add = [&](const Sizes& sizes, SizeGuess::NewSize new_size) {
    RowShapes shapes = SizeGuess(sizes, new_size).shapes(signature);
    if (is_small(shapes) && std::find(guesses.begin(), guesses.end(), shapes) == guesses.end()) {
      guesses.push_back(std::move(shapes));
    }
  };
  for (const Sizes& sizes : given) add(sizes, small_prime);
  for (const SizeGuess::NewSize new_size : {small_prime, multiple_of_32, usual_image_side, one}) add({}, new_size);
  return guesses;
}

NamedValues make_request(const Signature& signature, const RowShapes& row_shapes, std::int64_t rows,
                         TrialNumbers numbers, Magnitude magnitude, std::uint64_t seed, bool with_optional) {
  std::mt19937_64 random(seed);
  NamedValues inputs;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    const SignatureEntry& entry = signature.inputs[i];
    if (!entry.required && !with_optional) continue;
    Shape shape{rows};
    shape.insert(shape.end(), row_shapes[i].begin(), row_shapes[i].end());
    Tensor tensor = Tensor::allocate(entry.type.element, std::move(shape));
    fill(tensor, entry.name, numbers, magnitude, random);
    inputs.emplace_back(entry.name, std::move(tensor));
  }
  return inputs;
}

}  // namespace gpux::runtime
