#include "encoder/weights.h"

namespace gpux_encoder {
namespace {

// Nearly a third of the error of int8 comes from the query, key and value projections of the last layers, as measured
// with all-MiniLM-L6-v2.
constexpr std::size_t bfloat16_attention_layers = 2;

}  // namespace

LayerPrecision layer_precision(Precision precision, std::size_t layers_behind) noexcept {
  if (precision != Precision::int8_bf16) return {precision, precision};
  return {layers_behind < bfloat16_attention_layers ? Precision::bf16 : Precision::int8, Precision::int8};
}

}  // namespace gpux_encoder
