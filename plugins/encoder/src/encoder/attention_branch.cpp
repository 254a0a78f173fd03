#include "encoder/attention_branch.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gpux_cpu::encoder {
namespace {

// Of a batch with more rows, the threads take their parts as they are done: long texts have parts of unlike sizes.
constexpr std::size_t many_rows = 1024, parts_per_thread = 8;

// Heads of `count` elements side by side.
void normalize_heads(const Pass& pass, const std::optional<Norm>& norm, std::size_t heads, float* values) {
  if (!norm) return;
  const std::size_t size = norm->gamma.size(), all = heads * pass.weights.head_size;
  for (std::size_t first = 0; first < all; first += size) {
    normalize(pass.kernels, *norm, values + first, nullptr, size, values + first);
  }
}

}  // namespace

void AttentionBranch::run(std::size_t index) {
  const Layer& layer = pass_.weights.layers[index];
  project(layer);
  if (attends_in_bfloat16(pass_.weights, layer)) {
    attend(index, pass_.workspace.attention_bfloat16s.get(0));
  } else {
    attend(index, pass_.workspace.attention.get(0));
  }
}

std::vector<bool> AttentionBranch::nan_rows() const {
  const MaskedKeys& keys = pass_.weights.masked_keys;
  if (!std::isinf(keys.score) || keys.zero_if_all_masked) return {};
  std::vector<bool> found;
  for (const auto& [scope, plan] : plans_) {
    for (const AttentionChunk& chunk : plan.chunks) {
      if (!chunk.all_masked) continue;
      found.resize(pass_.rows);
      const std::size_t first = pass_.packed.text_starts[chunk.text] - pass_.first_row;
      for (std::size_t query = chunk.first_query; query < chunk.last_query; ++query) found[first + query] = true;
    }
  }
  return found;
}

// Queries, keys and values of all rows, as the attention takes them.
void AttentionBranch::project(const Layer& layer) {
  const Linear& projection = layer.query_key_value;
  const std::size_t columns = projection.columns();
  const bool in_bfloat16 = attends_in_bfloat16(pass_.weights, layer);
  std::uint16_t* const bfloat16s =
      in_bfloat16 ? pass_.workspace.attention_bfloat16s.get(pass_.rows * columns) : nullptr;
  float* const floats = in_bfloat16 ? nullptr : pass_.workspace.attention.get(pass_.rows * columns);
  const bool has_finish = layer.query_norm || layer.key_norm || layer.rotary_table;
  pass_.for_each_block([&](std::size_t block, std::size_t end) {
    float* const out = in_bfloat16 ? pass_.intermediate : floats + block * columns;
    pass_.multiply(projection, projection.part_of(pass_.layer_input, block, end - block), out);
    if (!in_bfloat16 && !has_finish) return;
    pass_.distribute(end - block, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        if (has_finish) finish_heads(layer, block + row, out + row * columns);
        if (in_bfloat16) {
          pass_.kernels.to_bfloat16(out + row * columns, columns, bfloat16s + (block + row) * columns);
        }
      }
    });
  });
}

// Norms and rotary positions of a row's queries and keys.
void AttentionBranch::finish_heads(const Layer& layer, std::size_t row, float* values) const {
  const Weights& weights = pass_.weights;
  float* const keys = values + weights.num_heads * weights.head_size;
  normalize_heads(pass_, layer.query_norm, weights.num_heads, values);
  normalize_heads(pass_, layer.key_norm, weights.num_kv_heads, keys);
  if (!layer.rotary_table) return;
  const RotaryTable& table = weights.rotary_tables[*layer.rotary_table];
  const std::size_t pairs = table.dimensions / 2;
  const auto position = static_cast<std::size_t>(pass_.packed.position_ids[pass_.first_row + row]);
  const float* const cosines = table.cosines.data() + position * pairs;
  const float* const sines = table.sines.data() + position * pairs;
  // The heads of the keys follow those of the queries.
  for (std::size_t head = 0; head < weights.num_heads + weights.num_kv_heads; ++head) {
    pass_.kernels.rotate(values + head * weights.head_size, cosines, sines, pairs, table.interleaved);
  }
}

template <typename Element>
void AttentionBranch::attend(std::size_t index, const Element* rows) {
  const Layer& layer = pass_.weights.layers[index];
  const AttentionPlan& plan = plan_of(layer);
  pass_.distribute(
      plan.chunks.size() * pass_.weights.num_heads,
      [&](std::size_t first, std::size_t last) { attend(layer, plan, rows, index, first, last); },
      pass_.rows > many_rows ? parts_per_thread : 1);
}

// Heads of chunks, those of a chunk after each other.
template <typename Element>
void AttentionBranch::attend(const Layer& layer, const AttentionPlan& plan, const Element* rows, std::size_t index,
                             std::size_t first_item, std::size_t last_item) {
  const Weights& weights = pass_.weights;
  const std::size_t num_heads = weights.num_heads, head_size = weights.head_size;
  const std::size_t group = num_heads / weights.num_kv_heads, stride = layer.query_key_value.columns();
  const Pool<AttentionScratch>::Loan loan(pass_.scratch.attention);
  AttentionScratch& scratch = *loan;
  for (std::size_t item = first_item; item < last_item; ++item) {
    pass_.throw_if_stopped();
    const AttentionChunk& chunk = plan.chunks[item / num_heads];
    const std::size_t head = item % num_heads, key_head = head / group;
    const std::size_t first_row = pass_.packed.text_starts[chunk.text] - pass_.first_row;
    const std::size_t* const positions = pass_.packed.positions.data() + pass_.packed.text_starts[chunk.text];
    const Element* const key_row = rows + (first_row + chunk.first_key) * stride + (num_heads + key_head) * head_size;
    const AttentionKeys<Element> keys{.keys = key_row,
                                      .values = key_row + weights.num_kv_heads * head_size,
                                      .stride = stride,
                                      .head_size = head_size,
                                      .count = chunk.last_key - chunk.first_key,
                                      .positions = positions + chunk.first_key};
    if (item == first_item || head % group == 0) pack(keys, scratch);
    const bool has_ranges = !plan.ranges.empty() && !chunk.all_masked;
    const std::size_t query = first_row + chunk.first_query, out_stride = num_heads * head_size;
    const AttentionQueries<Element> queries{.queries = rows + query * stride + head * head_size,
                                            .stride = stride,
                                            .count = chunk.last_query - chunk.first_query,
                                            .positions = positions + chunk.first_query,
                                            .ranges = has_ranges ? plan.ranges.data() + query : nullptr,
                                            .masked_keys = chunk.all_masked ? &weights.masked_keys : nullptr,
                                            .scale = layer.score_scale,
                                            .out = pass_.context + query * out_stride + head * head_size,
                                            .out_stride = out_stride};
    ScoreTerms<Element> terms{.max_positions = weights.max_relative_positions};
    if (!weights.relative_bias.empty()) {
      terms.relative_bias = weights.relative_bias.data() + head * (2 * weights.max_relative_positions - 1);
    }
    if (!weights.alibi_slopes.empty()) terms.alibi_slope = weights.alibi_slopes.data()[head];
    terms.relative = pass_.scratch.relative_embeddings[index].template of_head<Element>(head);
    encoder::attend(pass_.kernels, keys, queries, terms, scratch);
  }
  scratch.release_if_large();
}

const AttentionPlan& AttentionBranch::plan_of(const Layer& layer) {
  const AttentionScope scope{layer.window, layer.causal, pass_.weights.mask_excludes_queries};
  const auto found = std::ranges::find(plans_, scope, [](const auto& entry) { return entry.first; });
  if (found != plans_.end()) return found->second;
  return plans_.emplace_back(scope, plan_attention(pass_.packed, pass_.first_text, pass_.last_text, scope)).second;
}

}  // namespace gpux_cpu::encoder
