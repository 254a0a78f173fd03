#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "gpux/tensor.h"
#include "onnx/block_weights.h"

namespace gpux::checkpoint {

/// The tensors of a model, by the names and in the layouts of transformers. Elements are read when they are asked for.
class Weights {
 public:
  Weights() = default;
  virtual ~Weights() = default;

  [[nodiscard]] virtual bool has(std::string_view name) const noexcept = 0;

  [[nodiscard]] virtual std::vector<std::string> names() const = 0;

  /// The size of all tensors of floating type as float32.
  [[nodiscard]] virtual std::uint64_t float32_bytes() const noexcept = 0;

  /// Shape of a tensor. Error invalid_model if there is no such tensor.
  [[nodiscard]] virtual const Shape& shape(std::string_view name) const = 0;

  /// Checks name and shape of a tensor without reading it. Errors as floats().
  virtual void require(std::string_view name, const Shape& shape) const = 0;

  /// `rows` rows from `first_row` on of a tensor, one behind the other, as float32. Errors invalid_model: there is none
  /// of that name, its sizes are others, or its type has no numbers.
  [[nodiscard]] virtual std::vector<float> floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                                  std::int64_t rows) const = 0;

  /// The elements of a tensor, all rows.
  [[nodiscard]] std::vector<float> floats(std::string_view name, const Shape& shape) const {
    return floats(name, shape, 0, shape.empty() ? 1 : shape.front());
  }

  /// The type of a tensor of floating type: float16, bfloat16, float32 or float64; float32 where it is stored in
  /// another way. Error invalid_model: its type has no numbers, or there is none of that name.
  [[nodiscard]] virtual ElementType floating_type(std::string_view name) const = 0;

  /// floats() of a float16 or bfloat16 tensor, as bit patterns.
  [[nodiscard]] virtual std::vector<std::uint16_t> small_floats(std::string_view name, const Shape& shape,
                                                                std::int64_t first_row, std::int64_t rows) const = 0;

  /// The blocks that a matrix is stored in, as blocks() gives them; none where it has elements of a floating type.
  [[nodiscard]] virtual std::optional<onnx::BlockFormat> block_format(std::string_view /*name*/) const {
    return std::nullopt;
  }

  /// floats() of a matrix that has a block_format(), in blocks.
  [[nodiscard]] virtual onnx::BlockMatrix blocks(std::string_view name, const Shape& /*shape*/,
                                                 std::int64_t /*first_row*/, std::int64_t /*rows*/) const {
    throw Error(ErrorCode::internal, fmt::format("{} has no blocks", name));
  }

 protected:
  Weights(const Weights&) = default;
  Weights(Weights&&) = default;
  Weights& operator=(const Weights&) = default;
  Weights& operator=(Weights&&) = default;
};

}  // namespace gpux::checkpoint
