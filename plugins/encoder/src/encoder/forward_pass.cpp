#include "encoder/forward_pass.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "encoder/attention_branch.h"

namespace gpux_cpu::encoder {
namespace {

// The norm before the attention of the layer after `index`.
const std::optional<Norm>& next_input_norm(const Weights& weights, std::size_t index) {
  static const std::optional<Norm> none;
  return index + 1 < weights.layers.size() ? weights.layers[index + 1].attention_input_norm : none;
}

// From the context of the attention to the input of the next layer, or to the hidden states after the last one.
class FeedForwardBlocks {
 public:
  FeedForwardBlocks(Pass& pass, std::size_t index)
      : pass_(pass),
        index_(index),
        layer_(pass.weights.layers[index]),
        next_(index + 1 < pass.weights.layers.size() ? &pass.weights.layers[index + 1] : nullptr) {}

  void run() {
    Linear::Rows next_input;
    if (next_ != nullptr) {
      next_input = Pass::rows_for(next_->query_key_value, pass_.workspace.layer_input, pass_.rows,
                                  pass_.branch_input(next_->attention_input_norm),
                                  pass_.branch_stride(next_->attention_input_norm));
    }
    pass_.for_each_block([&](std::size_t first, std::size_t last) { run_block(first, last - first, next_input); });
    pass_.layer_input = next_input;
  }

 private:
  void run_block(std::size_t first, std::size_t count, const Linear::Rows& next_input) {
    float* const projected = pass_.projected + first * pass_.projected_stride;
    const std::size_t context_columns = layer_.attention_output.inner();
    multiply(
        layer_.attention_output, count, pass_.context + first * context_columns, context_columns, [](std::size_t) {},
        projected);
    const std::optional<Norm>& input_norm = layer_.feed_forward_input_norm;
    const std::size_t stride = pass_.branch_stride(input_norm);
    multiply(
        layer_.up_projection, count, pass_.branch_input(input_norm) + first * stride, stride,
        [&](std::size_t row) {
          pass_.finish_branch(first + row, layer_.attention_branch_norm, layer_.attention_sum_norm, input_norm);
        },
        pass_.intermediate);
    const std::size_t columns = layer_.up_projection.columns();
    multiply(
        layer_.down_projection, count, pass_.intermediate, columns,
        [&](std::size_t row) { activate(pass_.intermediate + row * columns); }, projected);
    const auto finish = [&](std::size_t row) {
      pass_.finish_branch(first + row, layer_.feed_forward_branch_norm, layer_.feed_forward_sum_norm,
                          next_input_norm(pass_.weights, index_));
    };
    if (next_ != nullptr) {
      pass_.make_rows(next_->query_key_value, next_->query_key_value.part_of(next_input, first, count), finish);
      return;
    }
    pass_.distribute(count, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        finish(row);
        finish_last(first + row);
      }
    });
  }

  // out = the rows, each made by `make`, times the matrix.
  template <typename Make>
  void multiply(const Linear& linear, std::size_t count, const float* floats, std::size_t stride, const Make& make,
                float* out) {
    const Linear::Rows rows = Pass::rows_for(linear, pass_.workspace.block_input, count, floats, stride);
    pass_.make_rows(linear, rows, make);
    pass_.multiply(linear, rows, out);
  }

  void activate(float* values) const {
    const std::size_t size = layer_.down_projection.inner();
    gpux_cpu::activate(pass_.kernels, layer_.activation, values, size);
    if (layer_.gated) pass_.kernels.multiply(values, values + size, size);
  }

  void finish_last(std::size_t row) const {
    const std::size_t hidden_size = pass_.weights.hidden_size;
    float* const x = pass_.x + row * hidden_size;
    if (pass_.weights.final_norm) normalize(pass_.kernels, *pass_.weights.final_norm, x, nullptr, hidden_size, x);
  }

  Pass& pass_;
  const std::size_t index_;
  const Layer& layer_;
  const Layer* const next_;
};

// Returns which rows are NaN, as AttentionBranch::nan_rows() does.
std::vector<bool> run_layers(Pass& pass) {
  const Layer& first = pass.weights.layers.front();
  pass.layer_input =
      Pass::rows_for(first.query_key_value, pass.workspace.layer_input, pass.rows,
                     pass.branch_input(first.attention_input_norm), pass.branch_stride(first.attention_input_norm));
  embed(pass);
  AttentionBranch attention(pass);
  for (std::size_t index = 0; index < pass.weights.layers.size(); ++index) {
    pass.throw_if_stopped();
    attention.run(index);
    FeedForwardBlocks(pass, index).run();
  }
  return attention.nan_rows();
}

void write_hidden_states(const Pass& pass, const std::vector<bool>& is_nan, float* hidden_states) {
  const std::size_t hidden_size = pass.weights.hidden_size;
  for (std::size_t text = pass.first_text; text < pass.last_text; ++text) {
    for (std::size_t token = pass.packed.text_starts[text]; token < pass.packed.text_starts[text + 1]; ++token) {
      const std::size_t row = token - pass.first_row;
      float* const out = hidden_states + (text * pass.length + pass.packed.positions[token]) * hidden_size;
      if (!is_nan.empty() && is_nan[row]) {
        std::fill_n(out, hidden_size, std::numeric_limits<float>::quiet_NaN());
      } else {
        std::copy_n(pass.x + row * hidden_size, hidden_size, out);
      }
    }
  }
}

}  // namespace

void run_forward_pass(const PassInputs& inputs, std::size_t first_text, std::size_t last_text,
                      const Encoder::Results& results) {
  Pass pass(inputs, first_text, last_text);
  // Texts whose tokens are all masked may have no row.
  const std::vector<bool> is_nan = pass.rows > 0 ? run_layers(pass) : std::vector<bool>();
  if (results.hidden_states != nullptr) write_hidden_states(pass, is_nan, results.hidden_states);
  if (results.vectors == nullptr) return;
  if (pass.weights.pooling == Pooling::splade) {
    pool_splade(pass, results.vectors);
  } else {
    pool(pass, is_nan, results.vectors);
  }
}

}  // namespace gpux_cpu::encoder
