#include "encoder/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace gpux_encoder {
namespace {

/// The layers, for some texts.
class ForwardPass {
 public:
  ForwardPass(const Weights& weights, const Kernels& kernels, Encoder::Scratch& scratch, const PackedTokens& packed,
              std::size_t length, std::size_t first_text, std::size_t last_text, Team* team,
              const std::atomic<bool>* stopped)
      : weights_(weights),
        kernels_(kernels),
        scratch_(scratch),
        packed_(packed),
        length_(length),
        first_text_(first_text),
        last_text_(last_text),
        first_row_(packed.text_starts[first_text]),
        rows_(packed.text_starts[last_text] - first_row_),
        team_(team),
        stopped_(stopped),
        loan_(scratch.workspaces),
        workspace_(*loan_) {}

  void run(const Encoder::Results& results) {
    const std::size_t hidden_size = weights_.hidden_size;
    // Texts whose tokens are all masked may have no row.
    if (rows_ > 0) run_layers();
    if (results.vectors != nullptr) {
      distribute(last_text_ - first_text_, [&](std::size_t first, std::size_t last) {
        for (std::size_t text = first_text_ + first; text < first_text_ + last; ++text) {
          pool(text, results.vectors + text * hidden_size);
        }
      });
    }
    if (results.hidden_states == nullptr) return;
    for (std::size_t text = first_text_; text < last_text_; ++text) {
      const bool is_nan = packed_.unmasked_counts[text] == 0 && is_nan_without_tokens();
      for (std::size_t row = packed_.text_starts[text]; row < packed_.text_starts[text + 1]; ++row) {
        const float* const x = x_ + (row - first_row_) * hidden_size;
        float* const out = results.hidden_states + (text * length_ + packed_.positions[row]) * hidden_size;
        if (is_nan) {
          std::fill(out, out + hidden_size, std::numeric_limits<float>::quiet_NaN());
        } else {
          std::copy(x, x + hidden_size, out);
        }
      }
    }
  }

 private:
  void run_layers() {
    const std::size_t hidden_size = weights_.hidden_size;
    std::size_t max_columns = 0;
    for (const Layer& layer : weights_.layers) {
      max_columns = std::max({max_columns, layer.query_key_value.columns(), layer.up_projection.columns()});
    }
    x_ = workspace_.x.get(rows_ * hidden_size);
    intermediate_ = workspace_.intermediate.get(rows_ * max_columns);
    context_ = workspace_.context.get(rows_ * hidden_size);
    projected_ = workspace_.projected.get(rows_ * panels_of(hidden_size) * panel_columns);
    const std::vector<Layer>& layers = weights_.layers;
    Linear::Rows rows =
        make_rows(layers.front().query_key_value, x_, hidden_size, [&](std::size_t row) { embed(row); });
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (stopped_ != nullptr && *stopped_) throw Stopped();
      rows = run_layer(layers[i], rows, i + 1 < layers.size() ? &layers[i + 1] : nullptr);
    }
  }

  /// Divides `count` items among the threads of the team.
  template <typename Work>
  void distribute(std::size_t count, const Work& work) {
    const std::size_t parts = team_ == nullptr ? 1 : std::min(team_->threads(), count);
    if (parts <= 1) {
      work(std::size_t{0}, count);
      return;
    }
    const auto run_part = [&](std::size_t part) { work(count * part / parts, count * (part + 1) / parts); };
    team_->run_parts(parts, std::ref(run_part));
  }

  void embed(std::size_t row) const {
    const std::size_t hidden_size = weights_.hidden_size, token = first_row_ + row;
    const float* const word =
        weights_.word_embeddings.data() + static_cast<std::size_t>(packed_.input_ids[token]) * hidden_size;
    const float* const position =
        weights_.position_embeddings.data() + static_cast<std::size_t>(packed_.position_ids[token]) * hidden_size;
    const float* const type = weights_.token_type_embeddings.empty()
                                  ? nullptr
                                  : weights_.token_type_embeddings.data() +
                                        static_cast<std::size_t>(packed_.token_type_ids[token]) * hidden_size;
    float* const out = x_ + row * hidden_size;
    for (std::size_t i = 0; i < hidden_size; ++i) out[i] = word[i] + position[i] + (type == nullptr ? 0 : type[i]);
    normalize_row(*weights_.embedding_norm, out, nullptr, out);
  }

  void normalize_row(const Norm& norm, const float* x, const float* residual, float* out) const {
    kernels_.layer_norm(x, residual, norm.gamma.data(), norm.beta.data(), norm.epsilon, weights_.hidden_size, out);
  }

  /// Scratch memory for `rows_` rows in the precision of `linear`.
  Linear::Rows rows_for(const Linear& linear, const float* floats, std::size_t stride) {
    Linear::Rows rows{.count = rows_, .floats = floats, .float_stride = stride};
    if (linear.precision() == Precision::bf16) rows.bfloat16s = workspace_.bfloat16s.get(rows_ * linear.row_stride());
    if (linear.precision() == Precision::int8) {
      rows.bytes = workspace_.bytes.get(rows_ * linear.row_stride());
      rows.scale = workspace_.scale.get(rows_);
      rows.zero = workspace_.zero.get(rows_);
    }
    return rows;
  }

  void multiply(const Linear& linear, const Linear::Rows& rows, float* out) {
    distribute(linear.panels(), [&](std::size_t first, std::size_t last) {
      linear.multiply(kernels_, rows, first, last, out, linear.columns());
    });
  }

  /// Calls `make` for each row, and converts the row to the precision of `linear` while it is in the nearest cache.
  template <typename Make>
  Linear::Rows make_rows(const Linear& linear, const float* floats, std::size_t stride, const Make& make) {
    const Linear::Rows rows = rows_for(linear, floats, stride);
    distribute(rows_, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        make(row);
        linear.convert(kernels_, rows, row, row + 1);
      }
    });
    return rows;
  }

  /// From the input rows of a layer to those of the next, or to the hidden states after the last.
  Linear::Rows run_layer(const Layer& layer, const Linear::Rows& rows, const Layer* next) {
    const std::size_t hidden_size = weights_.hidden_size;
    multiply(layer.query_key_value, rows, intermediate_);
    convert_attention_to_bfloat16(layer.query_key_value);
    distribute((last_text_ - first_text_) * weights_.num_heads,
               [&](std::size_t first, std::size_t last) { attend(layer, first, last); });
    multiply(layer.attention_output, make_rows(layer.attention_output, context_, hidden_size, [](std::size_t) {}),
             projected_);
    multiply(layer.up_projection,
             make_rows(layer.up_projection, x_, hidden_size,
                       [&](std::size_t row) { add_and_normalize(*layer.attention_sum_norm, row); }),
             intermediate_);
    const std::size_t stride = layer.up_projection.columns();
    multiply(layer.down_projection,
             make_rows(layer.down_projection, intermediate_, stride,
                       [&](std::size_t row) { activate(layer, intermediate_ + row * stride); }),
             projected_);
    const auto finish = [&](std::size_t row) { add_and_normalize(*layer.feed_forward_sum_norm, row); };
    if (next != nullptr) return make_rows(next->query_key_value, x_, hidden_size, finish);
    distribute(rows_, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) finish(row);
    });
    return {};
  }

  void activate(const Layer& layer, float* values) const {
    const auto kernel = layer.activation == Activation::gelu ? kernels_.gelu : kernels_.tanh_gelu;
    kernel(values, layer.down_projection.inner());
  }

  // Attention is in bfloat16 if the projections are rounded anyway.
  void convert_attention_to_bfloat16(const Linear& query_key_value) {
    bfloat16s_ = nullptr;
    if (query_key_value.precision() == Precision::fp32 ||
        weights_.hidden_size / weights_.num_heads % bfloat16_depth != 0)
      return;
    const std::size_t columns = query_key_value.columns();
    std::uint16_t* const bfloat16s = workspace_.attention_bfloat16s.get(rows_ * columns);
    distribute(rows_, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        kernels_.to_bfloat16(intermediate_ + row * columns, columns, bfloat16s + row * columns);
      }
    });
    bfloat16s_ = bfloat16s;
  }

  void add_and_normalize(const Norm& norm, std::size_t row) const {
    float* const x = x_ + row * weights_.hidden_size;
    normalize_row(norm, projected_ + row * panels_of(weights_.hidden_size) * panel_columns, x, x);
  }

  // The heads of texts, over the unmasked keys and values.
  void attend(const Layer& layer, std::size_t first, std::size_t last) {
    const Pool<AttentionScratch>::Loan attention_scratch(scratch_.attention);
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t text = first_text_ + i / weights_.num_heads, head = i % weights_.num_heads;
      if (packed_.text_starts[text] == packed_.text_starts[text + 1]) continue;
      if (bfloat16s_ != nullptr) {
        gpux_encoder::attend(kernels_, head_of(layer, text, head, bfloat16s_), position_bias_of(text, head),
                             *attention_scratch);
      } else {
        gpux_encoder::attend(kernels_, head_of(layer, text, head, intermediate_), position_bias_of(text, head),
                             *attention_scratch);
      }
    }
  }

  template <typename Element>
  [[nodiscard]] AttentionHead<Element> head_of(const Layer& layer, std::size_t text, std::size_t head,
                                               const Element* rows) const {
    const std::size_t hidden_size = weights_.hidden_size, head_size = hidden_size / weights_.num_heads;
    const std::size_t stride = layer.query_key_value.columns();
    const std::size_t first = packed_.text_starts[text] - first_row_;
    const std::size_t queries = packed_.text_starts[text + 1] - packed_.text_starts[text];
    const Element* const query = rows + first * stride + head * head_size;
    return {.queries = query,
            .keys = query + hidden_size,
            .values = query + 2 * hidden_size,
            .stride = stride,
            .head_size = head_size,
            .query_count = queries,
            .key_count = packed_.unmasked_counts[text] == 0 ? queries : packed_.unmasked_counts[text],
            .masked_keys = packed_.unmasked_counts[text] == 0 ? &weights_.masked_keys : nullptr,
            .scale = layer.score_scale,
            .out = context_ + first * hidden_size + head * head_size,
            .out_stride = hidden_size};
  }

  [[nodiscard]] PositionBias position_bias_of(std::size_t text, std::size_t head) const {
    if (weights_.relative_bias.empty()) return {};
    const std::size_t max_positions = weights_.max_relative_positions;
    return {weights_.relative_bias.data() + head * (2 * max_positions - 1), max_positions,
            packed_.positions.data() + packed_.text_starts[text]};
  }

  void pool(std::size_t text, float* vector) const {
    const std::size_t hidden_size = weights_.hidden_size;
    const std::size_t first = packed_.text_starts[text] - first_row_, tokens = packed_.unmasked_counts[text];
    std::fill(vector, vector + hidden_size, 0.0F);
    if (tokens == 0 && length_ > 0 && is_nan_without_tokens()) {
      std::fill(vector, vector + hidden_size, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const std::size_t rows = packed_.text_starts[text + 1] - packed_.text_starts[text];
    if (weights_.pooling == Pooling::cls) {
      // It may be among the masked tokens, which follow the unmasked ones.
      std::size_t row = first;
      while (row < first + rows && packed_.positions[first_row_ + row] != 0) ++row;
      if (row < first + rows) std::copy(x_ + row * hidden_size, x_ + (row + 1) * hidden_size, vector);
    } else {
      if (tokens == 0) return;
      for (std::size_t token = first; token < first + tokens; ++token) {
        for (std::size_t i = 0; i < hidden_size; ++i) vector[i] += x_[token * hidden_size + i];
      }
      for (std::size_t i = 0; i < hidden_size; ++i) vector[i] /= static_cast<float>(tokens);
    }
    if (!weights_.normalize) return;
    float squares = 0;
    for (std::size_t i = 0; i < hidden_size; ++i) squares += vector[i] * vector[i];
    const float inverse_length = 1.0F / std::max(std::sqrt(squares), 1e-12F);
    for (std::size_t i = 0; i < hidden_size; ++i) vector[i] *= inverse_length;
  }

  // If all scores are -infinity, the probabilities and everything computed from them are NaN.
  [[nodiscard]] bool is_nan_without_tokens() const {
    return std::isinf(weights_.masked_keys.score) && !weights_.masked_keys.zero_if_all_masked;
  }

  const Weights& weights_;
  const Kernels& kernels_;
  Encoder::Scratch& scratch_;
  const PackedTokens& packed_;
  const std::size_t length_;  // of the batch
  const std::size_t first_text_, last_text_, first_row_, rows_;
  Team* const team_;
  const std::atomic<bool>* stopped_;
  const Pool<Workspace>::Loan loan_;
  Workspace& workspace_;
  const std::uint16_t* bfloat16s_ = nullptr;  // of queries, keys and values
  float *x_ = nullptr, *intermediate_ = nullptr, *context_ = nullptr, *projected_ = nullptr;
};

}  // namespace

void run_forward_pass(const Weights& weights, const Kernels& kernels, Encoder::Scratch& scratch,
                      const PackedTokens& packed, std::size_t length, std::size_t first_text, std::size_t last_text,
                      Team* team, const std::atomic<bool>* stopped, const Encoder::Results& results) {
  ForwardPass(weights, kernels, scratch, packed, length, first_text, last_text, team, stopped).run(results);
}

}  // namespace gpux_encoder
