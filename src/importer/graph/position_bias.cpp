#include "importer/graph/position_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "importer/graph/distances.h"

namespace gpux::importer {
namespace {

// The exponential of this is 0, and devices that compute in float16 or bfloat16 can hold it and twice of it: the
// lowest float32 would be infinite there, and 0 times that no number.
constexpr float excluded_score = -30000.0F;

constexpr std::int64_t type_float = 1;  // ONNX's TensorProto.DataType

std::string mask_bias(GraphContext& context) {
  return context.once("mask bias", [&] {
    const std::string mask = context.node("Cast", {"attention_mask"}, {{"to", type_float}});
    const std::string wide = context.node("Unsqueeze", {mask, context.list({1, 2})});
    const std::string left_out = context.node("Sub", {context.scalar(1), wide});
    return context.node("Mul", {left_out, context.scalar(excluded_score)});
  });
}

std::string absolute_distances(GraphContext& context) {
  return context.once("absolute distances", [&] { return context.node("Abs", {distances(context)}); });
}

// bool[query, key]
std::string excluded_keys(GraphContext& context, const Attention& attention) {
  if (!attention.causal && attention.window) {
    return context.node("Greater", {absolute_distances(context), context.graph().integer(*attention.window)});
  }
  const std::string later = context.node("Greater", {distances(context), context.graph().integer(0)});
  if (!attention.window) return later;
  const std::string far = context.node("Less", {distances(context), context.graph().integer(-*attention.window)});
  return context.node("Or", {later, far});
}

// The table has a row for each distance up to max_distance to both sides: distances beyond share a bucket.
std::string bias_by_distance(GraphContext& context, const RelativeBias& bias, std::int64_t heads) {
  const std::vector<float> table = context.floats(bias.table, {bias.buckets, heads});
  const std::int64_t most = bias.max_distance, distinct = 2 * most + 1;
  std::vector<float> by_distance(static_cast<std::size_t>(heads * distinct));
  for (std::int64_t i = 0; i < distinct; ++i) {
    const std::int64_t bucket = relative_bucket(i - most, bias.buckets, most);
    for (std::int64_t head = 0; head < heads; ++head) {
      by_distance[static_cast<std::size_t>(head * distinct + i)] =
          table[static_cast<std::size_t>(bucket * heads + head)];
    }
  }
  const std::string constant = context.graph().floats("relative_attention_bias", by_distance, {heads, distinct});
  const std::string index = distance_index(context, most);
  return context.node("Gather", {constant, index}, {{"axis", std::int64_t{1}}});
}

std::string bias_by_pair(GraphContext& context, const RelativeBias& bias, std::int64_t heads) {
  const std::int64_t most = bias.max_tokens;
  const std::vector<float> table = context.floats(bias.table, {bias.buckets, heads});
  std::vector<float> all(static_cast<std::size_t>(heads * most * most));
  for (std::int64_t i = 0; i < most; ++i) {
    for (std::int64_t j = 0; j < most; ++j) {
      const std::int64_t bucket = relative_bucket(j - i, bias.buckets, bias.max_distance);
      for (std::int64_t head = 0; head < heads; ++head) {
        all[static_cast<std::size_t>((head * most + i) * most + j)] =
            table[static_cast<std::size_t>(bucket * heads + head)];
      }
    }
  }
  const std::string constant = context.graph().floats("relative_attention_bias", all, {1, heads, most, most});
  const std::string starts = context.list({0, 0});
  const std::string length = context.sequence_length();
  const std::string ends = context.node("Concat", {length, length}, {{"axis", std::int64_t{0}}});
  return context.node("Slice", {constant, starts, ends, context.list({2, 3})});
}

std::string relative_bias(GraphContext& context, const RelativeBias& bias, std::int64_t heads) {
  return context.once("relative bias", [&] {
    return bias.max_tokens != 0 ? bias_by_pair(context, bias, heads) : bias_by_distance(context, bias, heads);
  });
}

std::string alibi(GraphContext& context, const Alibi& bias) {
  return context.once("alibi", [&] {
    std::vector<float> slopes;
    for (const float slope : bias.slopes) slopes.push_back(-slope);
    const auto heads = static_cast<std::int64_t>(slopes.size());
    const std::string distance = context.node("Cast", {absolute_distances(context)}, {{"to", type_float}});
    return context.node("Mul", {distance, context.graph().floats("alibi_slopes", slopes, {heads, 1, 1})});
  });
}

}  // namespace

// As transformers' MPNetEncoder.relative_position_bucket and T5Attention._relative_position_bucket have it.
std::int64_t relative_bucket(std::int64_t relative, std::int64_t buckets, std::int64_t max_distance) {
  const std::int64_t half = buckets / 2;
  const std::int64_t side = relative > 0 ? half : 0;
  const std::int64_t distance = std::abs(relative);
  const std::int64_t exact = half / 2;
  if (distance < exact) return side + distance;
  const double far = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                     std::log(static_cast<double>(max_distance) / static_cast<double>(exact)) *
                     static_cast<double>(half - exact);
  return side + std::min(exact + static_cast<std::int64_t>(far), half - 1);
}

std::string attention_bias(GraphContext& context, const Transformer& transformer, const Attention& attention) {
  const std::string key = fmt::format("bias {} {}", attention.causal, attention.window.value_or(-1));
  return context.once(key, [&] {
    std::string bias = mask_bias(context);
    if (attention.causal || attention.window) {
      const std::string excluded = context.node("Cast", {excluded_keys(context, attention)}, {{"to", type_float}});
      bias = context.node("Add", {bias, context.node("Mul", {excluded, context.scalar(excluded_score)})});
    }
    if (const auto* relative = std::get_if<RelativeBias>(&transformer.position_bias)) {
      bias = context.node("Add", {bias, relative_bias(context, *relative, transformer.heads)});
    } else if (const auto* linear = std::get_if<Alibi>(&transformer.position_bias)) {
      bias = context.node("Add", {bias, alibi(context, *linear)});
    }
    return bias;
  });
}

}  // namespace gpux::importer
