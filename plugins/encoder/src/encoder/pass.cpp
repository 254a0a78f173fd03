#include "encoder/pass.h"

namespace gpux_cpu::encoder {

void ConvertedRows::release_if_large() noexcept {
  bfloat16s.release_if_large();
  bytes.release_if_large();
}

void Workspace::release_if_large() noexcept {
  for (ScratchBuffer<float>* buffer : {&x, &projected, &attention, &context, &intermediate}) buffer->release_if_large();
  attention_bfloat16s.release_if_large();
  layer_input.release_if_large();
  block_input.release_if_large();
}

Pass::Pass(const PassInputs& inputs, std::size_t first, std::size_t last)
    : weights(inputs.weights),
      kernels(inputs.kernels),
      scratch(inputs.scratch),
      packed(inputs.packed),
      length(inputs.length),
      first_text(first),
      last_text(last),
      first_row(packed.text_starts[first]),
      rows(packed.text_starts[last] - first_row),
      team(inputs.team),
      stopped(inputs.stopped),
      loan(inputs.scratch.workspaces),
      workspace(*loan),
      projected_stride(panels_of(weights.hidden_size) * panel_columns) {
  if (rows == 0) return;
  x = workspace.x.get(rows * weights.hidden_size);
  projected = workspace.projected.get(rows * projected_stride);
  context = workspace.context.get(rows * weights.num_heads * weights.head_size);
  // Of the embeddings, too.
  std::size_t columns = weights.embedding_size;
  for (const Layer& layer : weights.layers) {
    columns = std::max({columns, layer.query_key_value.columns(), layer.up_projection.columns()});
  }
  if (weights.masked_lm) columns = std::max(columns, weights.masked_lm->transform.columns());
  intermediate = workspace.intermediate.get(std::min(rows, rows_per_block) * columns);
}

Pass::~Pass() {
  workspace.release_if_large();
}

Linear::Rows Pass::rows_for(const Linear& linear, ConvertedRows& memory, std::size_t count, const float* floats,
                            std::size_t stride) {
  Linear::Rows converted{.count = count, .floats = floats, .float_stride = stride};
  if (linear.precision() == Precision::bf16) converted.bfloat16s = memory.bfloat16s.get(count * linear.row_stride());
  if (linear.precision() == Precision::int8) {
    converted.bytes = memory.bytes.get(count * linear.row_stride());
    converted.scale = memory.scale.get(count);
    converted.zero = memory.zero.get(count);
  }
  return converted;
}

void Pass::multiply(const Linear& linear, const Linear::Rows& converted, float* out) const {
  distribute(linear.panels(), [&](std::size_t first, std::size_t last) {
    linear.multiply(kernels, converted, first, last, out, linear.columns());
  });
}

void Pass::finish_branch(std::size_t row, const std::optional<Norm>& branch_norm, const std::optional<Norm>& sum_norm,
                         const std::optional<Norm>& next_norm) const {
  const std::size_t hidden_size = weights.hidden_size;
  float* const own = x + row * hidden_size;
  float* const branch = projected + row * projected_stride;
  if (branch_norm) normalize(kernels, *branch_norm, branch, nullptr, hidden_size, branch);
  if (sum_norm) {
    normalize(kernels, *sum_norm, branch, own, hidden_size, own);
  } else {
    kernels.scale_and_add(own, 1, branch, hidden_size);
  }
  if (next_norm) normalize(kernels, *next_norm, own, nullptr, hidden_size, branch);
}

}  // namespace gpux_cpu::encoder
