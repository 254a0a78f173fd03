#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "encoder/pass.h"

namespace gpux_cpu::encoder {
namespace {

const float* row_of(const SharedArray<float>& table, std::int64_t index, std::size_t columns) {
  return table.empty() ? nullptr : table.data() + static_cast<std::size_t>(index) * columns;
}

// The sum of a token's embeddings.
void sum_embeddings(const Pass& pass, std::size_t row, float* out) {
  const Weights& weights = pass.weights;
  const std::size_t columns = weights.embedding_size, token = pass.first_row + row;
  const float* const word = row_of(weights.word_embeddings, pass.packed.input_ids[token], columns);
  const float* const position = row_of(weights.position_embeddings, pass.packed.position_ids[token], columns);
  const float* const type = row_of(weights.token_type_embeddings, pass.packed.token_type_ids[token], columns);
  const float scale = weights.embedding_scale;
  if (position != nullptr) {
    for (std::size_t i = 0; i < columns; ++i) out[i] = word[i] * scale + position[i] + (type == nullptr ? 0 : type[i]);
  } else {
    for (std::size_t i = 0; i < columns; ++i) out[i] = word[i] * scale + (type == nullptr ? 0 : type[i]);
  }
  if (weights.embedding_norm) normalize(pass.kernels, *weights.embedding_norm, out, nullptr, columns, out);
}

bool is_masked(const Pass& pass, std::size_t row) {
  // The text of the row: the last one that begins there or before.
  const auto& starts = pass.packed.text_starts;
  const std::size_t token = pass.first_row + row;
  const auto text = static_cast<std::size_t>(std::ranges::upper_bound(starts, token) - starts.begin()) - 1;
  return token - starts[text] >= pass.packed.unmasked_counts[text];
}

// What follows the projection, in place.
void finish(const Pass& pass, std::size_t row) {
  const std::size_t hidden_size = pass.weights.hidden_size;
  float* const out = pass.x + row * hidden_size;
  if (pass.weights.projected_embedding_norm)
    normalize(pass.kernels, *pass.weights.projected_embedding_norm, out, nullptr, hidden_size, out);
  if (pass.weights.zero_masked_embeddings && is_masked(pass, row)) std::fill_n(out, hidden_size, 0.0F);
}

}  // namespace

void embed(Pass& pass) {
  const Weights& weights = pass.weights;
  const Layer& first_layer = weights.layers.front();
  const std::size_t hidden_size = weights.hidden_size;
  const auto finish_row = [&](std::size_t row) {
    finish(pass, row);
    if (first_layer.attention_input_norm) {
      normalize(pass.kernels, *first_layer.attention_input_norm, pass.x + row * hidden_size, nullptr, hidden_size,
                pass.projected + row * pass.projected_stride);
    }
  };
  if (!weights.embedding_projection) {
    pass.make_rows(first_layer.query_key_value, pass.layer_input, [&](std::size_t row) {
      sum_embeddings(pass, row, pass.x + row * hidden_size);
      finish_row(row);
    });
    return;
  }
  const Linear& projection = *weights.embedding_projection;
  pass.for_each_block([&](std::size_t first, std::size_t last) {
    const Linear::Rows rows =
        Pass::rows_for(projection, pass.workspace.block_input, last - first, pass.intermediate, weights.embedding_size);
    pass.make_rows(projection, rows, [&](std::size_t row) {
      sum_embeddings(pass, first + row, pass.intermediate + row * weights.embedding_size);
    });
    pass.multiply(projection, rows, pass.projected + first * pass.projected_stride);
    pass.make_rows(first_layer.query_key_value,
                   first_layer.query_key_value.part_of(pass.layer_input, first, last - first), [&](std::size_t row) {
                     std::copy_n(pass.projected + (first + row) * pass.projected_stride, hidden_size,
                                 pass.x + (first + row) * hidden_size);
                     finish_row(first + row);
                   });
  });
}

}  // namespace gpux_cpu::encoder
