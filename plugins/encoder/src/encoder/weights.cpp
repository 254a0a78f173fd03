#include "encoder/weights.h"

#include <algorithm>

namespace gpux_cpu::encoder {
namespace {

// Nearly a third of the error of int8 comes from the query, key and value projections of the last layers, as measured
// with all-MiniLM-L6-v2.
constexpr std::size_t bfloat16_attention_layers = 2;

}  // namespace

LayerPrecision layer_precision(Precision precision, std::size_t layers_behind) noexcept {
  if (precision != Precision::int8_bf16) return {precision, precision};
  return {layers_behind < bfloat16_attention_layers ? Precision::bf16 : Precision::int8, Precision::int8};
}

std::size_t vector_size(const Weights& weights) noexcept {
  return weights.pooling == Pooling::splade && weights.masked_lm ? weights.masked_lm->decoder.unpadded_columns()
                                                                 : weights.hidden_size;
}

std::optional<std::size_t> max_position_ids(const Weights& weights) noexcept {
  std::optional<std::size_t> least;
  const auto limit = [&least](std::size_t rows) { least = std::min(least.value_or(rows), rows); };
  if (!weights.position_embeddings.empty()) limit(weights.position_embeddings.size() / weights.embedding_size);
  for (const RotaryTable& table : weights.rotary_tables) limit(table.cosines.size() / (table.dimensions / 2));
  return least;
}

}  // namespace gpux_cpu::encoder
