#include "decoder/pass.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace gpux_cpu::decoder {
namespace {

using Floats = ScratchBuffer<float>;

// Finer parts make up for threads that others hold up.
constexpr std::size_t panel_parts_per_thread = 4;
// Rows whose intermediate values of a few panels stay in the nearest caches.
constexpr std::size_t rows_per_tile = 64;
// Rows of queries that are attended together: enough to make up for packing the keys.
constexpr std::size_t queries_per_unit = 224;

/// Consecutive positions of a row, of the heads that share a key head.
struct AttentionUnit {
  TokenRun run;  ///< of the pass
  std::size_t kv_head = 0;
  std::size_t span = 0, spans = 0;  ///< attended alone; 0: all of them
};

class Pass {
 public:
  Pass(const PassInputs& inputs, std::span<const TokenRow> tokens, std::span<const std::size_t> outputs)
      : inputs_(inputs),
        weights_(inputs.weights),
        kernels_(inputs.kernels),
        tokens_(tokens),
        outputs_(outputs),
        loan_(inputs.scratch.workspaces),
        workspace_(*loan_),
        rows_(tokens.size()),
        x_(workspace_.x.get(rows_ * weights_.hidden_size)) {}

  void run(std::span<float* const> logits) {
    embed();
    for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
      if (inputs_.stopped != nullptr && *inputs_.stopped) throw Stopped();
      run_layer(layer);
    }
    if (rows_ > 0) write_logits(logits);
  }

 private:
  template <typename Work>
  void distribute(std::size_t count, std::size_t parts_per_thread, const Work& work) const {
    gpux_cpu::distribute(&inputs_.team, count, parts_per_thread, work);
  }

  template <typename Work>
  void for_each_row(const Work& work) const {
    distribute(rows_, 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) work(row);
    });
  }

  static void multiply_by(float factor, float* values, std::size_t count) {
    if (factor == 1) return;
    for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
  }

  void embed() {
    for_each_row([&](std::size_t row) {
      float* const to = x_ + row * weights_.hidden_size;
      const auto id = static_cast<std::size_t>(tokens_[row].id);
      if (const auto* table = std::get_if<SharedArray<float>>(&weights_.tokens)) {
        std::copy_n(table->data() + id * weights_.hidden_size, weights_.hidden_size, to);
      } else {
        std::get<Projection>(weights_.tokens).read_column(id, to);
      }
      multiply_by(weights_.token_scale, to, weights_.hidden_size);
      if (weights_.positions.empty()) return;
      const float* const position = weights_.positions.data() + tokens_[row].position * weights_.hidden_size;
      kernels_.plain.scale_and_add(to, 1, position, weights_.hidden_size);
    });
  }

  // A branch's input: the row, or what its norm makes of it.
  void format_input(std::size_t row, const std::optional<Norm>& norm, Floats& memory) {
    const std::size_t hidden_size = weights_.hidden_size;
    const float* values = x_ + row * hidden_size;
    if (norm) {
      float* const normalized = memory.get(hidden_size);
      normalize(kernels_.plain, *norm, values, nullptr, hidden_size, normalized);
      values = normalized;
    }
    workspace_.input.set(kernels_, row, hidden_size, values);
  }

  // x = x + factor * branch_norm(branch), with the branch in `projected`; then the input of the next branch.
  void finish_branch(const Projection& branch, const std::optional<Norm>& branch_norm, float factor,
                     const RowFormats& next, const std::optional<Norm>& next_norm) {
    workspace_.input.resize(next, rows_);
    for_each_row([&](std::size_t row) {
      const Pool<Floats>::Loan memory(inputs_.scratch.floats);
      float* const own = workspace_.projected.get(0) + row * branch.padded_columns();
      if (branch_norm) normalize(kernels_.plain, *branch_norm, own, nullptr, weights_.hidden_size, own);
      multiply_by(factor, own, weights_.hidden_size);
      kernels_.plain.scale_and_add(x_ + row * weights_.hidden_size, 1, own, weights_.hidden_size);
      format_input(row, next_norm, *memory);
    });
  }

  // All columns of the rows, `stride` apart.
  void multiply(const Projection& projection, const FormattedRows& rows, float* out, std::size_t stride) const {
    distribute(projection.panels(), panel_parts_per_thread, [&](std::size_t first, std::size_t last) {
      projection.multiply(kernels_, rows, 0, rows_, first, last, out + first * panel_columns, stride);
    });
  }

  void multiply_into_projected(const Projection& projection, const FormattedRows& rows) {
    float* const out = workspace_.projected.get(rows_ * projection.padded_columns());
    multiply(projection, rows, out, projection.padded_columns());
  }

  void run_layer(std::size_t index) {
    const DecoderLayer& layer = weights_.layers[index];
    if (index == 0) {
      workspace_.input.resize(layer.attention_formats(), rows_);
      for_each_row([&](std::size_t row) {
        const Pool<Floats>::Loan memory(inputs_.scratch.floats);
        format_input(row, layer.attention_input_norm, *memory);
      });
    }
    project(layer);
    write_cache(layer, inputs_.batch.layers[index]);
    // Of the last layer, only the outputs' rows are needed.
    if (index + 1 == weights_.layers.size()) keep_outputs(layer);
    if (rows_ == 0) return;
    attend(layer, inputs_.batch.layers[index]);
    multiply_into_projected(layer.attention_output, workspace_.attended_rows);
    finish_branch(layer.attention_output, layer.attention_branch_norm, layer.attention_branch_factor,
                  layer.feed_forward_formats(), layer.feed_forward_input_norm);
    expand(layer);
    multiply_into_projected(layer.down, workspace_.intermediate);
    if (index + 1 == weights_.layers.size()) {
      RowFormats head;
      head.add(weights_.language_head.format());
      finish_branch(layer.down, layer.feed_forward_branch_norm, layer.feed_forward_branch_factor, head,
                    weights_.final_norm);
    } else {
      const DecoderLayer& next = weights_.layers[index + 1];
      finish_branch(layer.down, layer.feed_forward_branch_norm, layer.feed_forward_branch_factor,
                    next.attention_formats(), next.attention_input_norm);
    }
  }

  void project(const DecoderLayer& layer) {
    float* const out = workspace_.query_key_value.get(rows_ * layer.columns);
    for (const PlacedProjection& placed : layer.query_key_value) {
      multiply(placed.projection, workspace_.input.in(placed.projection.format()), out + placed.first_column,
               layer.columns);
    }
  }

  float* query_key_value(std::size_t row, const DecoderLayer& layer) {
    return workspace_.query_key_value.get(0) + row * layer.columns;
  }

  void finish_head(const DecoderLayer& layer, const std::optional<Norm>& norm, std::size_t position,
                   float* head) const {
    if (norm && norm->gamma.size() == weights_.head_size)
      normalize(kernels_.plain, *norm, head, nullptr, weights_.head_size, head);
    if (!layer.rotary_table) return;
    const RotaryTable& table = weights_.rotary_tables[*layer.rotary_table];
    const std::size_t pairs = table.dimensions / 2;
    kernels_.plain.rotate(head, table.cosines.data() + position * pairs, table.sines.data() + position * pairs, pairs,
                          table.interleaved);
  }

  // A norm of all heads together.
  void finish_heads(const std::optional<Norm>& norm, float* heads) const {
    if (norm && norm->gamma.size() != weights_.head_size)
      normalize(kernels_.plain, *norm, heads, nullptr, norm->gamma.size(), heads);
  }

  // Where the key or value of a token goes.
  void* cache_at(void* cache, const TokenRow& token, std::size_t kv_head) const {
    const std::size_t head = token.row * weights_.kv_heads + kv_head;
    const std::size_t row = head * inputs_.batch.present_length + token.position;
    return static_cast<std::byte*>(cache) + row * cache_row_bytes(weights_.cache_form, weights_.head_size);
  }

  void store(const float* values, void* to) const {
    const std::size_t head_size = weights_.head_size;
    switch (weights_.cache_form) {
      case CacheForm::float32:
        std::copy_n(values, head_size, static_cast<float*>(to));
        break;
      case CacheForm::float16:
        kernels_.blocks.to_half(values, head_size, static_cast<std::uint16_t*>(to));
        break;
      case CacheForm::int8:
        kernels_.blocks.to_codes(values, head_size, cache_block_size(head_size), static_cast<std::int8_t*>(to));
        break;
    }
  }

  // Norms and rotary positions of queries and keys; keys and values into the cache.
  void write_cache(const DecoderLayer& layer, const LayerCache& cache) {
    const std::size_t head_size = weights_.head_size;
    for_each_row([&](std::size_t row) {
      float* const own = query_key_value(row, layer);
      const TokenRow& token = tokens_[row];
      finish_heads(layer.query_norm, own + layer.query_column);
      finish_heads(layer.key_norm, own + layer.key_column);
      for (std::size_t head = 0; head < weights_.heads; ++head) {
        finish_head(layer, layer.query_norm, token.position, own + layer.query_column + head * head_size);
      }
      for (std::size_t head = 0; head < weights_.kv_heads; ++head) {
        float* const key = own + layer.key_column + head * head_size;
        finish_head(layer, layer.key_norm, token.position, key);
        store(key, cache_at(cache.present_keys, token, head));
        store(own + layer.value_column + head * head_size, cache_at(cache.present_values, token, head));
      }
    });
  }

  void keep_outputs(const DecoderLayer& layer) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t from = outputs_[i];
      if (from == i) continue;
      std::copy_n(x_ + from * weights_.hidden_size, weights_.hidden_size, x_ + i * weights_.hidden_size);
      std::copy_n(query_key_value(from, layer), layer.columns, query_key_value(i, layer));
    }
    kept_tokens_.clear();
    for (const std::size_t output : outputs_) kept_tokens_.push_back(tokens_[output]);
    tokens_ = kept_tokens_;
    rows_ = outputs_.size();
  }

  [[nodiscard]] CachedQueries queries_of(const AttentionUnit& unit, const float* queries) const {
    return {.queries = queries,
            .first_position = tokens_[unit.run.first].position,
            .positions = unit.run.count,
            .group = weights_.heads / weights_.kv_heads};
  }

  [[nodiscard]] std::vector<AttentionUnit> attention_units(const AttentionRules& rules) const {
    const std::size_t most = std::max<std::size_t>(1, queries_per_unit / (weights_.heads / weights_.kv_heads));
    std::vector<AttentionUnit> units;
    for (std::size_t first = 0; first < rows_;) {
      std::size_t last = first + 1;
      while (last < rows_ && last - first < most && tokens_[last].row == tokens_[first].row &&
             tokens_[last].position == tokens_[last - 1].position + 1) {
        ++last;
      }
      for (std::size_t head = 0; head < weights_.kv_heads; ++head) units.push_back({{first, last - first}, head});
      first = last;
    }
    // With few units, a long one is several: their spans.
    if (units.size() >= 2 * inputs_.team.threads()) return units;
    std::vector<AttentionUnit> divided;
    for (AttentionUnit unit : units) {
      const SpanRange spans = spans_of(queries_of(unit, nullptr), rules);
      unit.spans = spans.last - spans.first;
      for (unit.span = spans.first; unit.span < spans.last; ++unit.span) divided.push_back(unit);
    }
    return divided.size() == units.size() ? units : divided;
  }

  // The unit's queries, [positions, group, head_size].
  const float* gathered_queries(const AttentionUnit& unit, const DecoderLayer& layer, Floats& memory) {
    const std::size_t columns = weights_.heads / weights_.kv_heads * weights_.head_size;
    float* const queries = memory.get(unit.run.count * columns);
    for (std::size_t i = 0; i < unit.run.count; ++i) {
      std::copy_n(query_key_value(unit.run.first + i, layer) + layer.query_column + unit.kv_head * columns, columns,
                  queries + i * columns);
    }
    return queries;
  }

  [[nodiscard]] HeadCache head_cache(const AttentionUnit& unit, const LayerCache& cache) const {
    const TokenRow start{.row = tokens_[unit.run.first].row};
    return {.keys = cache_at(cache.present_keys, start, unit.kv_head),
            .values = cache_at(cache.present_values, start, unit.kv_head),
            .form = weights_.cache_form,
            .head_size = weights_.head_size};
  }

  // What the unit has attended goes to `attended`, [rows, heads, head_size].
  void write_attended(const AttentionUnit& unit, const AttentionSums& sums, float* attended, Floats& memory) const {
    const std::size_t columns = weights_.heads / weights_.kv_heads * weights_.head_size;
    float* const results = memory.get(unit.run.count * columns);
    finish(sums, queries_of(unit, nullptr).rows(), weights_.head_size, results);
    for (std::size_t i = 0; i < unit.run.count; ++i) {
      std::copy_n(results + i * columns, columns,
                  attended + (unit.run.first + i) * weights_.heads * weights_.head_size + unit.kv_head * columns);
    }
  }

  void attend(const DecoderLayer& layer, const LayerCache& cache) {
    const std::size_t columns = weights_.heads * weights_.head_size, head_size = weights_.head_size;
    float* const attended = workspace_.attended.get(rows_ * columns);
    const std::vector<AttentionUnit> units = attention_units(layer.rules);
    const bool is_divided = units.front().spans > 0;
    const std::size_t unit_floats =
        AttentionSums::size(std::max<std::size_t>(queries_per_unit, weights_.heads), head_size);
    float* const partial = is_divided ? workspace_.partial_sums.get(units.size() * unit_floats) : nullptr;
    const auto sums_of = [&](std::size_t unit) {
      return AttentionSums::in(partial + unit * unit_floats, queries_of(units[unit], nullptr).rows(), head_size);
    };
    const auto run_unit = [&](std::size_t index) {
      const AttentionUnit& unit = units[index];
      const Pool<AttentionScratch>::Loan loan(inputs_.scratch.attention);
      AttentionScratch& scratch = *loan;
      const CachedQueries queries = queries_of(unit, gathered_queries(unit, layer, scratch.queries));
      const HeadCache head = head_cache(unit, cache);
      if (is_divided) {
        decoder::attend(kernels_.blocks, head, queries, layer.rules, unit.span, scratch, sums_of(index));
        return;
      }
      const std::size_t rows = queries.rows(), floats = AttentionSums::size(rows, head_size);
      const AttentionSums all = AttentionSums::in(scratch.sums.get(floats), rows, head_size);
      const AttentionSums part = AttentionSums::in(scratch.span.get(floats), rows, head_size);
      const SpanRange spans = spans_of(queries, layer.rules);
      clear(all, rows, head_size);
      for (std::size_t span = spans.first; span < spans.last; ++span) {
        decoder::attend(kernels_.blocks, head, queries, layer.rules, span, scratch, part);
        add(all, part, rows, head_size);
      }
      write_attended(unit, all, attended, scratch.queries);
    };
    if (units.size() == 1 || inputs_.team.threads() == 1) {
      for (std::size_t unit = 0; unit < units.size(); ++unit) run_unit(unit);
    } else {
      inputs_.team.run_parts(units.size(), std::ref(run_unit));
    }
    if (is_divided) {
      const Pool<Floats>::Loan memory(inputs_.scratch.floats);
      for (std::size_t first = 0; first < units.size(); first += units[first].spans) {
        const std::size_t rows = queries_of(units[first], nullptr).rows();
        for (std::size_t i = 1; i < units[first].spans; ++i) add(sums_of(first), sums_of(first + i), rows, head_size);
        write_attended(units[first], sums_of(first), attended, *memory);
      }
    }
    workspace_.attended_rows.resize(layer.attention_output.format(), rows_);
    for_each_row(
        [&](std::size_t row) { workspace_.attended_rows.set(kernels_, row, 0, columns, attended + row * columns); });
  }

  // Gate and up projection, the activation, and the format of the down projection, some columns after the others: a
  // block of the format is made of whole panels.
  void expand(const DecoderLayer& layer) {
    const RowFormat format = layer.down.format();
    workspace_.intermediate.resize(format, rows_);
    const std::size_t group = std::max<std::size_t>(1, format.block_size / panel_columns);
    const FormattedRows& up_input = workspace_.input.in(layer.up.format());
    const FormattedRows& gate_input = layer.gate ? workspace_.input.in(layer.gate->format()) : up_input;
    const std::size_t panels = layer.up.panels(), groups = (panels + group - 1) / group;
    distribute(groups, panel_parts_per_thread, [&](std::size_t first_group, std::size_t last_group) {
      const Pool<Floats>::Loan memory(inputs_.scratch.floats);
      const std::size_t stride = group * panel_columns, most_rows = std::min(rows_, rows_per_tile);
      float* const up = (*memory).get(2 * most_rows * stride);
      float* const gate = up + most_rows * stride;
      for (std::size_t index = first_group; index < last_group; ++index) {
        const std::size_t first = index * group, last = std::min(first + group, panels);
        const std::size_t column = first * panel_columns;
        const std::size_t columns = std::min(last * panel_columns, layer.up.columns()) - column;
        for (std::size_t start = 0; start < rows_; start += rows_per_tile) {
          const std::size_t rows = std::min(rows_per_tile, rows_ - start);
          layer.up.multiply(kernels_, up_input, start, rows, first, last, up, stride);
          if (layer.gate) layer.gate->multiply(kernels_, gate_input, start, rows, first, last, gate, stride);
          for (std::size_t row = 0; row < rows; ++row) {
            float* const values = (layer.gate ? gate : up) + row * stride;
            activate(kernels_.plain, layer.activation, values, columns);
            if (layer.gate) kernels_.plain.multiply(values, up + row * stride, columns);
            workspace_.intermediate.set(kernels_, start + row, column, columns, values);
          }
        }
      }
    });
  }

  void write_logits(std::span<float* const> logits) {
    const Projection& head = weights_.language_head;
    const std::size_t vocabulary = weights_.vocabulary;
    const FormattedRows& input = workspace_.input.in(head.format());
    distribute(head.panels(), panel_parts_per_thread, [&](std::size_t first, std::size_t last) {
      const Pool<Floats>::Loan memory(inputs_.scratch.floats);
      // Rows of logits are not of whole panels, nor next to each other.
      constexpr std::size_t panels_at_once = 16;
      float* const out = (*memory).get(rows_ * panels_at_once * panel_columns);
      for (std::size_t panel = first; panel < last; panel += panels_at_once) {
        const std::size_t end = std::min(panel + panels_at_once, last), column = panel * panel_columns;
        const std::size_t columns = std::min(end * panel_columns, vocabulary) - column;
        head.multiply(kernels_, input, 0, rows_, panel, end, out, panels_at_once * panel_columns);
        for (std::size_t row = 0; row < rows_; ++row) {
          float* const own = out + row * panels_at_once * panel_columns;
          if (weights_.logit_divisor != 1) {
            for (std::size_t i = 0; i < columns; ++i) own[i] /= weights_.logit_divisor;
          }
          if (weights_.logit_soft_cap > 0) {
            for (std::size_t i = 0; i < columns; ++i) {
              own[i] = weights_.logit_soft_cap * std::tanh(own[i] / weights_.logit_soft_cap);
            }
          }
          std::copy_n(own, columns, logits[row] + column);
        }
      }
    });
  }

  const PassInputs& inputs_;
  const DecoderWeights& weights_;
  const KernelTables& kernels_;
  std::span<const TokenRow> tokens_;
  std::span<const std::size_t> outputs_;
  const Pool<Workspace>::Loan loan_;
  Workspace& workspace_;
  std::size_t rows_;
  float* x_;
  std::vector<TokenRow> kept_tokens_;
};

}  // namespace

void run_pass(const PassInputs& inputs, std::span<const TokenRow> tokens, std::span<const std::size_t> outputs,
              std::span<float* const> logits) {
  Pass(inputs, tokens, outputs).run(logits);
}

}  // namespace gpux_cpu::decoder
