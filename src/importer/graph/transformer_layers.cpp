#include "importer/graph/transformer_layers.h"

#include <initializer_list>
#include <optional>
#include <variant>
#include <vector>

#include "importer/graph/disentangled.h"
#include "importer/graph/position_bias.h"
#include "importer/graph/rotary.h"

namespace gpux::importer {
namespace {

using Order = std::vector<std::int64_t>;
const Order heads_first{0, 2, 1, 3};

class LayerWriter {
 public:
  LayerWriter(GraphContext& context, const Transformer& transformer) : context_(context), transformer_(transformer) {}

  std::string layer(const std::string& input, const Layer& layer, std::string_view output,
                    const std::function<std::string(const std::string&)>& attention) {
    const std::string attended = attention(normalized(input, layer.attention_residual.input_norm));
    const std::string middle = sum(attended, input, layer.attention_residual, {});
    const std::string fed =
        feed_forward(normalized(middle, layer.feed_forward_residual.input_norm), layer.feed_forward);
    return sum(fed, middle, layer.feed_forward_residual, output);
  }

 private:
  std::string normalized(const std::string& input, const std::optional<Norm>& norm) {
    return norm ? context_.normalized(input, *norm) : input;
  }

  std::string sum(std::string branch, const std::string& input, const Residual& residual, std::string_view output) {
    if (residual.branch_norm) branch = context_.normalized(branch, *residual.branch_norm);
    if (!residual.branch_scale.empty()) {
      branch = context_.node("Mul", {branch, context_.tensor(residual.branch_scale, {transformer_.hidden_size})});
    }
    if (residual.branch_factor != 1) {
      branch = context_.node("Mul", {branch, context_.scalar(residual.branch_factor)});
    }
    if (!residual.sum_norm) return context_.node("Add", {branch, input}, {}, output);
    return context_.normalized(context_.node("Add", {branch, input}), *residual.sum_norm, 1, output);
  }

  std::string feed_forward(const std::string& input, const FeedForward& feed_forward) {
    if (!feed_forward.gate) {
      const std::string inner = context_.activated(context_.linear(input, feed_forward.up), feed_forward.activation);
      return context_.linear(inner, feed_forward.down);
    }
    const std::string gate = context_.activated(context_.linear(input, *feed_forward.gate), feed_forward.activation);
    const std::string inner = context_.node("Mul", {gate, context_.linear(input, feed_forward.up)});
    return context_.linear(inner, feed_forward.down);
  }

  GraphContext& context_;
  const Transformer& transformer_;
};

class AttentionWithoutCache {
 public:
  AttentionWithoutCache(GraphContext& context, const Transformer& transformer)
      : context_(context), transformer_(transformer) {}

  std::string write(const std::string& input, const Attention& attention) {
    const std::string bias = transformer_.is_masked ? attention_bias(context_, transformer_, attention) : std::string();
    std::string values;
    std::string biased = scores(input, attention, values);
    if (!bias.empty()) biased = context_.node("Add", {biased, bias});
    const std::string shares = context_.node("Softmax", {biased}, {{"axis", std::int64_t{-1}}});
    const std::string mixed = transposed(context_.node("MatMul", {shares, values}), heads_first);
    const std::int64_t size = transformer_.heads * transformer_.head_size;
    return context_.linear(context_.node("Reshape", {mixed, context_.list({0, 0, size})}), attention.output);
  }

 private:
  std::string split(const std::string& projected, std::int64_t heads) {
    return context_.node("Reshape", {projected, context_.list({0, 0, heads, transformer_.head_size})});
  }

  std::string transposed(const std::string& input, const Order& order) {
    return context_.node("Transpose", {input}, {{"perm", order}});
  }

  // [batch, kv heads, sequence, head size], each head as often as it has query heads
  std::string repeated(const std::string& heads) {
    const std::int64_t group = transformer_.heads / transformer_.kv_heads;
    if (group == 1) return heads;
    const std::string wide = context_.node("Unsqueeze", {heads, context_.list({2})});
    const std::string expanded = context_.node("Expand", {wide, context_.list({1, 1, group, 1, 1})});
    return context_.node("Reshape", {expanded, context_.list({0, transformer_.heads, -1, transformer_.head_size})});
  }

  std::string query(const std::string& input, const Attention& attention) {
    const float in_linear = attention.query_norm ? 1 : attention.score_scale;
    std::string heads = split(context_.linear(input, attention.query, in_linear), transformer_.heads);
    heads = transposed(heads, heads_first);
    if (attention.query_norm) heads = context_.normalized(heads, *attention.query_norm, attention.score_scale);
    return attention.rotary ? rotated(context_, transformer_, *attention.rotary, heads) : heads;
  }

  // [batch, heads, sequence, head size]
  std::string key(const std::string& projected, const Attention& attention) {
    std::string keys = transposed(projected, heads_first);
    if (attention.key_norm) keys = context_.normalized(keys, *attention.key_norm);
    if (attention.rotary) keys = rotated(context_, transformer_, *attention.rotary, keys);
    return repeated(keys);
  }

  // MatMul of queries and keys, and what the positions add to it
  std::string scores(const std::string& input, const Attention& attention, std::string& values) {
    const std::string queries = query(input, attention);
    const std::string projected = split(context_.linear(input, attention.key), transformer_.kv_heads);
    const auto* disentangled = std::get_if<Disentangled>(&transformer_.position_bias);
    const bool is_plain = !attention.key_norm && !attention.rotary && transformer_.heads == transformer_.kv_heads;
    if (is_plain && disentangled == nullptr) {
      const std::string keys = transposed(projected, {0, 2, 3, 1});
      values = value(input, attention);
      return context_.node("MatMul", {queries, keys});
    }
    const std::string keys = key(projected, attention);
    const std::string turned = transposed(keys, {0, 1, 3, 2});
    values = value(input, attention);
    std::string product = context_.node("MatMul", {queries, turned});
    if (disentangled == nullptr) return product;
    const std::string added = disentangled_scores(context_, transformer_, *disentangled, attention, queries, keys);
    return added.empty() ? product : context_.node("Add", {product, added});
  }

  std::string value(const std::string& input, const Attention& attention) {
    return repeated(transposed(split(context_.linear(input, attention.value), transformer_.kv_heads), heads_first));
  }

  GraphContext& context_;
  const Transformer& transformer_;
};

}  // namespace

std::string write_layers(GraphContext& context, const Transformer& transformer, const std::string& input,
                         std::string_view output) {
  return write_layers(context, transformer, input, output,
                      [&](const std::string& normalized, const Attention& attention, std::size_t) {
                        return AttentionWithoutCache(context, transformer).write(normalized, attention);
                      });
}

std::string write_layers(GraphContext& context, const Transformer& transformer, const std::string& input,
                         std::string_view output, const AttentionWriter& write_attention) {
  LayerWriter writer(context, transformer);
  std::string hidden = input;
  for (std::size_t i = 0; i < transformer.layers.size(); ++i) {
    const Layer& layer = transformer.layers[i];
    const bool is_last = i + 1 == transformer.layers.size() && !transformer.final_norm;
    hidden = writer.layer(hidden, layer, is_last ? output : std::string_view(), [&](const std::string& normalized) {
      return write_attention(normalized, layer.attention, i);
    });
  }
  return transformer.final_norm ? context.normalized(hidden, *transformer.final_norm, 1, output) : hidden;
}

}  // namespace gpux::importer
