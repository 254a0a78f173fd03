#include "encoder/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace gpux_encoder {
namespace {

/// Some texts on their way through the layers.
class Pass {
 public:
  Pass(const Weights& weights, const Kernels& kernels, Encoder::Rooms& rooms, const Packed& packed, std::size_t length,
       std::size_t first_text, std::size_t last_text, Team* team, const std::atomic<bool>* stopped)
      : weights_(weights),
        kernels_(kernels),
        rooms_(rooms),
        packed_(packed),
        length_(length),
        first_text_(first_text),
        last_text_(last_text),
        first_row_(packed.starts[first_text]),
        rows_(packed.starts[last_text] - first_row_),
        team_(team),
        stopped_(stopped),
        loan_(rooms.passes),
        room_(*loan_) {}

  void run(const Encoder::Results& results) {
    const std::size_t hidden = weights_.hidden;
    // Texts without a token that counts may have no row at all.
    if (rows_ > 0) through_layers();
    if (results.vectors != nullptr) {
      each(last_text_ - first_text_, [&](std::size_t first, std::size_t last) {
        for (std::size_t text = first_text_ + first; text < first_text_ + last; ++text) {
          pool(text, results.vectors + text * hidden);
        }
      });
    }
    if (results.hidden == nullptr) return;
    for (std::size_t text = first_text_; text < last_text_; ++text) {
      const bool is_no_number = packed_.counted[text] == 0 && is_no_number_without_tokens();
      for (std::size_t row = packed_.starts[text]; row < packed_.starts[text + 1]; ++row) {
        const float* const x = x_ + (row - first_row_) * hidden;
        float* const out = results.hidden + (text * length_ + packed_.places[row]) * hidden;
        if (is_no_number) {
          std::fill(out, out + hidden, std::numeric_limits<float>::quiet_NaN());
        } else {
          std::copy(x, x + hidden, out);
        }
      }
    }
  }

 private:
  void through_layers() {
    const std::size_t hidden = weights_.hidden;
    std::size_t widest = 0;
    for (const Layer& layer : weights_.layers) {
      widest = std::max({widest, layer.query_key_value.columns(), layer.up_projection.columns()});
    }
    x_ = room_.x.of(rows_ * hidden);
    wide_ = room_.wide.of(rows_ * widest);
    mixed_ = room_.mixed.of(rows_ * hidden);
    projected_ = room_.projected.of(rows_ * panels_of(hidden) * panel_columns);
    const std::vector<Layer>& layers = weights_.layers;
    Linear::Rows rows = make_rows(layers.front().query_key_value, x_, hidden, [&](std::size_t row) { embed(row); });
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (stopped_ != nullptr && *stopped_) throw Stopped();
      rows = through(layers[i], rows, i + 1 < layers.size() ? &layers[i + 1] : nullptr);
    }
  }

  /// Shares `count` things out to the members.
  template <typename Work>
  void each(std::size_t count, const Work& work) {
    const std::size_t parts = team_ == nullptr ? 1 : std::min(team_->threads(), count);
    if (parts <= 1) {
      work(std::size_t{0}, count);
      return;
    }
    const auto part_of_it = [&](std::size_t part) { work(count * part / parts, count * (part + 1) / parts); };
    team_->share(parts, std::ref(part_of_it));
  }

  void embed(std::size_t row) const {
    const std::size_t hidden = weights_.hidden, place = first_row_ + row;
    const float* const word = weights_.words.data() + static_cast<std::size_t>(packed_.ids[place]) * hidden;
    const float* const position =
        weights_.positions.data() + static_cast<std::size_t>(packed_.positions[place]) * hidden;
    const float* const type = weights_.types.empty()
                                  ? nullptr
                                  : weights_.types.data() + static_cast<std::size_t>(packed_.types[place]) * hidden;
    float* const out = x_ + row * hidden;
    for (std::size_t i = 0; i < hidden; ++i) out[i] = word[i] + position[i] + (type == nullptr ? 0 : type[i]);
    normalize_row(weights_.embedding_norm, out, nullptr, out);
  }

  void normalize_row(const Norm& norm, const float* x, const float* residual, float* out) const {
    kernels_.layer_norm(x, residual, norm.gamma.data(), norm.beta.data(), norm.epsilon, weights_.hidden, out);
  }

  /// Room for `rows_` rows as `linear` multiplies them.
  Linear::Rows rows_for(const Linear& linear, const float* floats, std::size_t stride) {
    Linear::Rows rows{.count = rows_, .floats = floats, .float_stride = stride};
    if (linear.precision() == Precision::bf16) rows.bfloat16s = room_.bfloat16s.of(rows_ * linear.row_stride());
    if (linear.precision() == Precision::int8) {
      rows.bytes = room_.bytes.of(rows_ * linear.row_stride());
      rows.scale = room_.scale.of(rows_);
      rows.zero = room_.zero.of(rows_);
    }
    return rows;
  }

  void multiply(const Linear& linear, const Linear::Rows& rows, float* out) {
    each(linear.panels(), [&](std::size_t first, std::size_t last) {
      linear.multiply(kernels_, rows, first, last, out, linear.columns());
    });
  }

  /// What `make` makes of each row, and that as `linear` multiplies it while it is in the nearest cache.
  template <typename Make>
  Linear::Rows make_rows(const Linear& linear, const float* floats, std::size_t stride, const Make& make) {
    const Linear::Rows rows = rows_for(linear, floats, stride);
    each(rows_, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        make(row);
        linear.convert(kernels_, rows, row, row + 1);
      }
    });
    return rows;
  }

  /// From rows as the layer multiplies them to those of the next, or to the hidden states where there is none.
  Linear::Rows through(const Layer& layer, const Linear::Rows& rows, const Layer* next) {
    const std::size_t hidden = weights_.hidden;
    multiply(layer.query_key_value, rows, wide_);
    convert_attention_to_bfloat16(layer.query_key_value);
    each((last_text_ - first_text_) * weights_.heads,
         [&](std::size_t first, std::size_t last) { attend(layer, first, last); });
    multiply(layer.attention_out, make_rows(layer.attention_out, mixed_, hidden, [](std::size_t) {}), projected_);
    multiply(layer.up_projection,
             make_rows(layer.up_projection, x_, hidden,
                       [&](std::size_t row) { add_and_normalize(layer.attention_norm, row); }),
             wide_);
    const std::size_t stride = layer.up_projection.columns();
    multiply(layer.down_projection,
             make_rows(layer.down_projection, wide_, stride,
                       [&](std::size_t row) { activate(layer, wide_ + row * stride); }),
             projected_);
    const auto finish = [&](std::size_t row) { add_and_normalize(layer.output_norm, row); };
    if (next != nullptr) return make_rows(next->query_key_value, x_, hidden, finish);
    each(rows_, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) finish(row);
    });
    return {};
  }

  void activate(const Layer& layer, float* values) const {
    const auto kernel = layer.activation == Activation::gelu ? kernels_.gelu : kernels_.tanh_gelu;
    kernel(values, layer.down_projection.inner());
  }

  // Where products are rounded anyway, those of attention are, too.
  void convert_attention_to_bfloat16(const Linear& query_key_value) {
    bfloat16s_ = nullptr;
    if (query_key_value.precision() == Precision::fp32 || weights_.hidden / weights_.heads % bfloat16_depth != 0)
      return;
    const std::size_t columns = query_key_value.columns();
    std::uint16_t* const bfloat16s = room_.attention_bfloat16s.of(rows_ * columns);
    each(rows_, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        kernels_.to_bfloat16(wide_ + row * columns, columns, bfloat16s + row * columns);
      }
    });
    bfloat16s_ = bfloat16s;
  }

  void add_and_normalize(const Norm& norm, std::size_t row) const {
    float* const x = x_ + row * weights_.hidden;
    normalize_row(norm, projected_ + row * panels_of(weights_.hidden) * panel_columns, x, x);
  }

  // Heads of texts, one after the other; of the keys and values that count.
  void attend(const Layer& layer, std::size_t first, std::size_t last) {
    const Pool<AttentionRoom>::Loan room(rooms_.attention);
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t text = first_text_ + i / weights_.heads, head = i % weights_.heads;
      if (packed_.starts[text] == packed_.starts[text + 1]) continue;
      if (bfloat16s_ != nullptr) {
        gpux_encoder::attend(kernels_, head_of(layer, text, head, bfloat16s_), relative_of(text, head), *room);
      } else {
        gpux_encoder::attend(kernels_, head_of(layer, text, head, wide_), relative_of(text, head), *room);
      }
    }
  }

  template <typename Element>
  [[nodiscard]] Head<Element> head_of(const Layer& layer, std::size_t text, std::size_t head,
                                      const Element* rows) const {
    const std::size_t hidden = weights_.hidden, width = hidden / weights_.heads;
    const std::size_t stride = layer.query_key_value.columns();
    const std::size_t first = packed_.starts[text] - first_row_;
    const std::size_t queries = packed_.starts[text + 1] - packed_.starts[text];
    const Element* const query = rows + first * stride + head * width;
    return {.queries = query,
            .keys = query + hidden,
            .values = query + 2 * hidden,
            .stride = stride,
            .width = width,
            .query_count = queries,
            .key_count = packed_.counted[text] == 0 ? queries : packed_.counted[text],
            .hidden_keys = packed_.counted[text] == 0 ? &weights_.hidden_keys : nullptr,
            .scale = layer.score_scale,
            .out = mixed_ + first * hidden + head * width,
            .out_stride = hidden};
  }

  [[nodiscard]] Relative relative_of(std::size_t text, std::size_t head) const {
    if (weights_.relative.empty()) return {};
    const std::size_t places = weights_.relative_places;
    return {weights_.relative.data() + head * places * places, places, packed_.places.data() + packed_.starts[text]};
  }

  void pool(std::size_t text, float* vector) const {
    const std::size_t hidden = weights_.hidden;
    const std::size_t first = packed_.starts[text] - first_row_, tokens = packed_.counted[text];
    std::fill(vector, vector + hidden, 0.0F);
    if (tokens == 0 && length_ > 0 && is_no_number_without_tokens()) {
      std::fill(vector, vector + hidden, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const std::size_t rows = packed_.starts[text + 1] - packed_.starts[text];
    if (weights_.pooling == Pooling::cls) {
      // Among those that do not count, or the first of those that do.
      std::size_t row = first;
      while (row < first + rows && packed_.places[first_row_ + row] != 0) ++row;
      if (row < first + rows) std::copy(x_ + row * hidden, x_ + (row + 1) * hidden, vector);
    } else {
      if (tokens == 0) return;
      for (std::size_t token = first; token < first + tokens; ++token) {
        for (std::size_t i = 0; i < hidden; ++i) vector[i] += x_[token * hidden + i];
      }
      for (std::size_t i = 0; i < hidden; ++i) vector[i] /= static_cast<float>(tokens);
    }
    if (!weights_.normalize) return;
    float squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) squares += vector[i] * vector[i];
    const float share = 1.0F / std::max(std::sqrt(squares), 1e-12F);
    for (std::size_t i = 0; i < hidden; ++i) vector[i] *= share;
  }

  // Of what is -infinity for all keys no shares come, and nothing behind them is a number.
  [[nodiscard]] bool is_no_number_without_tokens() const {
    return std::isinf(weights_.hidden_keys.score) && !weights_.hidden_keys.nothing_if_all;
  }

  const Weights& weights_;
  const Kernels& kernels_;
  Encoder::Rooms& rooms_;
  const Packed& packed_;
  const std::size_t length_;  // of the batch
  const std::size_t first_text_, last_text_, first_row_, rows_;
  Team* const team_;
  const std::atomic<bool>* stopped_;
  const Pool<Workspace>::Loan loan_;
  Workspace& room_;
  const std::uint16_t* bfloat16s_ = nullptr;  // of queries, keys and values
  float *x_ = nullptr, *wide_ = nullptr, *mixed_ = nullptr, *projected_ = nullptr;
};

}  // namespace

void run_pass(const Weights& weights, const Kernels& kernels, Encoder::Rooms& rooms, const Packed& packed,
              std::size_t length, std::size_t first_text, std::size_t last_text, Team* team,
              const std::atomic<bool>* stopped, const Encoder::Results& results) {
  Pass(weights, kernels, rooms, packed, length, first_text, last_text, team, stopped).run(results);
}

}  // namespace gpux_encoder
