#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gpux_cpu::encoder {

/// A dimension of a shape: a fixed size, or one that is known only at run time. tokens: batch * sequence.
struct Dimension {
  enum class Kind : std::uint8_t { fixed, batch, sequence, tokens } kind = Kind::fixed;
  std::int64_t value = 0;  ///< size of a fixed dimension
  std::int64_t factor =
      1;  ///< a dimension that is known at run time has this many times the size of batch, sequence or tokens

  bool operator==(const Dimension&) const = default;
};

inline Dimension fixed(std::int64_t size) {
  return {Dimension::Kind::fixed, size, 1};
}

using Shape = std::vector<Dimension>;

/// The product of two dimensions; empty if it is none.
std::optional<Dimension> product_of(const Dimension& a, const Dimension& b);

/// The dimension that `factor` is multiplied by to give `product`; empty if there is none.
std::optional<Dimension> quotient_of(const Dimension& product, const Dimension& factor);

/// The dimension that completes `given` to as many elements as `whole` has; empty if there is none.
std::optional<Dimension> remaining_of(const Shape& whole, const Shape& given);

}  // namespace gpux_cpu::encoder
