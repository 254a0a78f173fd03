#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "encoder/pass.h"

namespace gpux_cpu::encoder {
namespace {

// Columns of the decoder that a thread multiplies at a time, in panels: with a block of rows they fit the second cache.
constexpr std::size_t panels_per_part = 8;
constexpr std::size_t rows_per_decoder_block = 128;

void scale_to_length_1(std::span<float> vector) {
  float squares = 0;
  for (const float value : vector) squares += value * value;
  const float inverse_length = 1.0F / std::max(std::sqrt(squares), 1e-12F);
  for (float& value : vector) value *= inverse_length;
}

/// One text of a pass.
struct Text {
  Text(const Pass& pass, std::size_t text)
      : first(pass.packed.text_starts[text] - pass.first_row),
        rows(pass.packed.text_starts[text + 1] - pass.packed.text_starts[text]),
        unmasked(pass.packed.unmasked_counts[text]) {}

  std::size_t first, rows, unmasked;  // row of the pass, counts
};

void add_up(const Pass& pass, const Text& text, std::span<float> vector) {
  const std::size_t tokens = text.unmasked;
  if (tokens == 0) return;
  for (std::size_t row = text.first; row < text.first + tokens; ++row) {
    for (std::size_t i = 0; i < vector.size(); ++i) vector[i] += pass.x[row * vector.size() + i];
  }
  for (float& value : vector) value /= static_cast<float>(tokens);
}

// The row that is the vector, or `rows` if there is none.
std::size_t pooled_row(const Pass& pass, const Text& text) {
  // Graphs take the first token of a text without unmasked tokens.
  if (pass.weights.pooling == Pooling::last && text.unmasked != 0) return text.first + text.unmasked - 1;
  // The first token may be among the masked ones, which follow the unmasked ones.
  for (std::size_t row = text.first; row < text.first + text.rows; ++row) {
    if (pass.packed.positions[pass.first_row + row] == 0) return row;
  }
  return pass.rows;
}

void pool(const Pass& pass, const Text& text, const std::vector<bool>& is_nan, std::span<float> vector) {
  const auto fill_nan = [&] { std::ranges::fill(vector, std::numeric_limits<float>::quiet_NaN()); };
  std::ranges::fill(vector, 0.0F);
  // Graphs multiply the rows of masked tokens by 0, and NaN stays NaN.
  const MaskedKeys& keys = pass.weights.masked_keys;
  if (pass.weights.pooling == Pooling::mean && text.unmasked == 0 && pass.length > 0 && std::isinf(keys.score) &&
      !keys.zero_if_all_masked) {
    fill_nan();
    return;
  }
  if (pass.weights.pooling == Pooling::cls || pass.weights.pooling == Pooling::last) {
    const std::size_t row = pooled_row(pass, text);
    if (row == pass.rows) return;
    if (!is_nan.empty() && is_nan[row]) {
      fill_nan();
      return;
    }
    std::copy_n(pass.x + row * vector.size(), vector.size(), vector.begin());
  } else {
    add_up(pass, text, vector);
  }
  if (pass.weights.normalize) scale_to_length_1(vector);
}

// Of each row, the text whose vector it counts for; nullopt as `last_text`.
std::vector<std::size_t> texts_of_rows(const Pass& pass) {
  std::vector<std::size_t> texts(pass.rows, pass.last_text);
  for (std::size_t text = pass.first_text; text < pass.last_text; ++text) {
    const Text one(pass, text);
    std::fill_n(texts.begin() + static_cast<std::ptrdiff_t>(one.first), one.unmasked, text);
  }
  return texts;
}

}  // namespace

void pool(const Pass& pass, const std::vector<bool>& is_nan, float* vectors) {
  const std::size_t size = pass.weights.hidden_size;
  pass.distribute(pass.last_text - pass.first_text, [&](std::size_t first, std::size_t last) {
    for (std::size_t text = pass.first_text + first; text < pass.first_text + last; ++text) {
      pool(pass, Text(pass, text), is_nan, {vectors + text * size, size});
    }
  });
}

void pool_splade(Pass& pass, float* vectors) {
  if (!pass.weights.masked_lm) return;
  const MaskedLmHead& head = *pass.weights.masked_lm;
  const std::size_t size = vector_size(pass.weights), hidden_size = pass.weights.hidden_size;
  // Logits below 0 count as 0.
  std::fill(vectors + pass.first_text * size, vectors + pass.last_text * size, 0.0F);
  const std::vector<std::size_t> texts = texts_of_rows(pass);
  for (std::size_t block = 0; block < pass.rows; block += rows_per_decoder_block) {
    pass.throw_if_stopped();
    const std::size_t count = std::min(rows_per_decoder_block, pass.rows - block);
    const Linear::Rows rows =
        Pass::rows_for(head.transform, pass.workspace.layer_input, count, pass.x + block * hidden_size, hidden_size);
    pass.make_rows(head.transform, rows, [](std::size_t) {});
    pass.multiply(head.transform, rows, pass.intermediate);
    const std::size_t stride = head.transform.columns(), inner = head.decoder.inner();
    const Linear::Rows transformed =
        Pass::rows_for(head.decoder, pass.workspace.block_input, count, pass.intermediate, stride);
    pass.make_rows(head.decoder, transformed, [&](std::size_t row) {
      float* const values = pass.intermediate + row * stride;
      activate(pass.kernels, head.activation, values, inner);
      if (head.norm) normalize(pass.kernels, *head.norm, values, nullptr, inner, values);
    });
    const std::size_t parts = (head.decoder.panels() + panels_per_part - 1) / panels_per_part;
    pass.distribute(parts, [&](std::size_t first, std::size_t last) {
      std::vector<float> logits(count * panels_per_part * panel_columns);
      for (std::size_t part = first; part < last; ++part) {
        const std::size_t panel = part * panels_per_part,
                          end = std::min(panel + panels_per_part, head.decoder.panels());
        const std::size_t column = panel * panel_columns, columns = (end - panel) * panel_columns;
        head.decoder.multiply_part(pass.kernels, transformed, panel, end, logits.data(), columns);
        for (std::size_t row = 0; row < count; ++row) {
          const std::size_t text = texts[block + row];
          if (text == pass.last_text) continue;
          pass.kernels.maximum(vectors + text * size + column, logits.data() + row * columns,
                               std::min(columns, size - column));
        }
      }
    });
  }
  pass.distribute(pass.last_text - pass.first_text, [&](std::size_t first, std::size_t last) {
    for (std::size_t text = pass.first_text + first; text < pass.first_text + last; ++text) {
      const std::span<float> vector(vectors + text * size, size);
      for (float& value : vector) value = value > 0 ? std::log1p(value) : 0.0F;
      if (head.has_second_log) {
        for (float& value : vector) value = std::log1p(value);
      }
      if (pass.weights.normalize) scale_to_length_1(vector);
    }
  });
}

}  // namespace gpux_cpu::encoder
