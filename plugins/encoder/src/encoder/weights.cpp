#include "encoder/weights.h"

namespace gpux_encoder {
namespace {

// Nearly a third of how far int8 is from float32 comes from queries, keys and values of so many layers at the end, as
// measured with all-MiniLM-L6-v2.
constexpr std::size_t layers_with_finer_queries = 2;

}  // namespace

LayerPrecision layer_precision(Precision precision, std::size_t layers_behind) noexcept {
  if (precision != Precision::int8_bf16) return {precision, precision};
  return {layers_behind < layers_with_finer_queries ? Precision::bf16 : Precision::int8, Precision::int8};
}

}  // namespace gpux_encoder
