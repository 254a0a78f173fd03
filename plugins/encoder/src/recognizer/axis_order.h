#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>

namespace gpux_encoder {

/// What an axis of a value is.
enum class Axis : std::uint8_t {
  batch,
  sequence,      ///< the tokens of a text; of attention scores, the queries
  key_sequence,  ///< of attention scores, the keys
  tokens,        ///< batch * sequence
  heads,
  batch_heads,  ///< batch * heads
  qkv,          ///< query, key and value
  head_size,
  hidden,  ///< hidden_size, or the columns of a projection
  one,     ///< of size 1
};

/// The axes of a value, outermost first. Only Axis::one may occur more than once.
class AxisOrder {
 public:
  static constexpr std::size_t max_rank = 5;

  constexpr AxisOrder() = default;

  /// Throws std::invalid_argument if an axis occurs twice or there are too many, so that such a constant does not
  /// compile.
  constexpr AxisOrder(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) {
      if (rank_ == max_rank || (axis != Axis::one && contains(axis))) throw std::invalid_argument("no order of axes");
      axes_[rank_++] = axis;
    }
  }

  [[nodiscard]] constexpr std::size_t rank() const noexcept { return rank_; }

  [[nodiscard]] constexpr Axis operator[](std::size_t index) const noexcept { return axes_[index]; }

  [[nodiscard]] constexpr std::optional<std::size_t> index_of(Axis axis) const noexcept {
    for (std::size_t index = 0; index < rank_; ++index) {
      if (axes_[index] == axis) return index;
    }
    return std::nullopt;
  }

  [[nodiscard]] constexpr bool contains(Axis axis) const noexcept { return index_of(axis).has_value(); }

  [[nodiscard]] constexpr bool operator==(const AxisOrder&) const noexcept = default;

  /// Without the axis at `index`.
  [[nodiscard]] constexpr AxisOrder without(std::size_t index) const {
    AxisOrder order;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (i != index) order.axes_[order.rank_++] = axes_[i];
    }
    return order;
  }

  /// With an axis of size 1 at `index`.
  [[nodiscard]] constexpr AxisOrder with_one(std::size_t index) const {
    AxisOrder order = *this;
    order.axes_[index] = Axis::one;
    return order;
  }

  /// As ONNX's Transpose; empty if `permutation` is none of these axes.
  [[nodiscard]] constexpr std::optional<AxisOrder> transposed(std::span<const std::int64_t> permutation) const {
    if (permutation.size() != rank_) return std::nullopt;
    AxisOrder order;
    std::array<bool, max_rank> is_used{};
    for (const std::int64_t from : permutation) {
      if (from < 0 || from >= static_cast<std::int64_t>(rank_)) return std::nullopt;
      const auto index = static_cast<std::size_t>(from);
      if (is_used[index]) return std::nullopt;
      is_used[index] = true;
      order.axes_[order.rank_++] = axes_[index];
    }
    return order;
  }

  /// With the last two axes swapped; unchanged below rank 2.
  [[nodiscard]] constexpr AxisOrder with_last_two_swapped() const {
    AxisOrder order = *this;
    if (rank_ < 2) return order;
    order.axes_[rank_ - 2] = axes_[rank_ - 1];
    order.axes_[rank_ - 1] = axes_[rank_ - 2];
    return order;
  }

 private:
  std::array<Axis, max_rank> axes_{};
  std::size_t rank_ = 0;
};

/// The orders that encoders have.
namespace axis_order {

inline constexpr AxisOrder batch{Axis::batch};
inline constexpr AxisOrder batch_one{Axis::batch, Axis::one};
inline constexpr AxisOrder batch_hidden{Axis::batch, Axis::hidden};
inline constexpr AxisOrder batch_one_hidden{Axis::batch, Axis::one, Axis::hidden};

inline constexpr AxisOrder batch_sequence_hidden{Axis::batch, Axis::sequence, Axis::hidden};
inline constexpr AxisOrder tokens_hidden{Axis::tokens, Axis::hidden};

inline constexpr AxisOrder batch_sequence_heads_size{Axis::batch, Axis::sequence, Axis::heads, Axis::head_size};
inline constexpr AxisOrder batch_sequence_qkv_heads_size{Axis::batch, Axis::sequence, Axis::qkv, Axis::heads,
                                                         Axis::head_size};
inline constexpr AxisOrder batch_heads_sequence_size{Axis::batch, Axis::heads, Axis::sequence, Axis::head_size};
inline constexpr AxisOrder batch_heads_size_sequence{Axis::batch, Axis::heads, Axis::head_size, Axis::sequence};
inline constexpr AxisOrder batch_heads_query_key{Axis::batch, Axis::heads, Axis::sequence, Axis::key_sequence};

// With batch and heads merged.
inline constexpr AxisOrder merged_heads_sequence_size{Axis::batch_heads, Axis::sequence, Axis::head_size};
inline constexpr AxisOrder merged_heads_size_sequence{Axis::batch_heads, Axis::head_size, Axis::sequence};
inline constexpr AxisOrder merged_heads_query_key{Axis::batch_heads, Axis::sequence, Axis::key_sequence};

}  // namespace axis_order
}  // namespace gpux_encoder
