#include "importer/graph/cached_attention.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t type_int32 = 6;  // ONNX's TensorProto.DataType

std::string past_name(std::size_t layer, const char* part) {
  return fmt::format("past_key_values.{}.{}", layer, part);
}

std::string present_name(std::size_t layer, const char* part) {
  return fmt::format("present.{}.{}", layer, part);
}

// int32[batch]: the tokens of each row in the cache and in this run, minus 1
const std::string& last_positions(GraphContext& context) {
  return context.once("last positions", [&] {
    const std::string counted =
        context.node("ReduceSum", {"attention_mask", context.list({1})}, {{"keepdims", std::int64_t{0}}});
    const std::string last = context.node("Sub", {counted, context.list({1})});
    return context.node("Cast", {last}, {{"to", type_int32}});
  });
}

// int32: the width of attention_mask
const std::string& total_length(GraphContext& context) {
  return context.once("total length", [&] {
    const std::string shape = context.node("Shape", {"attention_mask"});
    const std::string width = context.node("Gather", {shape, context.graph().integer(1)});
    return context.node("Cast", {width}, {{"to", type_int32}});
  });
}

// float[positions, dimensions / 2]. The angle is computed in float32, as transformers does.
std::string rotary_table(GraphContext& context, const Rotary& rotary, std::size_t index, std::int64_t positions,
                         const char* function, float (*compute)(float)) {
  return context.once(fmt::format("rotary {} {}", function, index), [&] {
    const auto width = static_cast<std::int64_t>(rotary.frequencies.size());
    return context.graph().floats(
        fmt::format("{}_{}", function, index), {positions, width},
        [frequencies = rotary.frequencies, factor = rotary.attention_factor, positions, compute] {
          std::vector<float> table;
          table.reserve(static_cast<std::size_t>(positions) * frequencies.size());
          for (std::int64_t position = 0; position < positions; ++position) {
            for (const float frequency : frequencies) {
              table.push_back(compute(static_cast<float>(position) * frequency) * factor);
            }
          }
          return table;
        });
  });
}

void require_causal(const Transformer& transformer, const Attention& attention) {
  if (attention.causal && std::holds_alternative<std::monostate>(transformer.position_bias)) return;
  throw Error(
      ErrorCode::invalid_config,
      "config.json: a model that generates text attends to earlier tokens alone, with rotary positions or none");
}

}  // namespace

void write_cache_values(GraphContext& context, const Transformer& transformer) {
  const auto sizes = [&](const char* length) {
    return std::array<onnx::WrittenSize, 4>{"batch", transformer.kv_heads, length, transformer.head_size};
  };
  for (std::size_t i = 0; i < transformer.layers.size(); ++i) {
    for (const char* part : {"key", "value"}) {
      context.graph().input(past_name(i, part), ElementType::float32, sizes("past_sequence"));
    }
  }
  for (std::size_t i = 0; i < transformer.layers.size(); ++i) {
    for (const char* part : {"key", "value"}) {
      context.graph().output(present_name(i, part), ElementType::float32, sizes("total_sequence"));
    }
  }
}

std::string cached_attention(GraphContext& context, const Transformer& transformer, const Attention& attention,
                             std::size_t layer, std::int64_t max_tokens, const std::string& input) {
  require_causal(transformer, attention);
  const auto projected = [&](const Linear& linear, const std::optional<Norm>& norm, std::int64_t heads) {
    const std::string rows = context.linear(input, linear);
    if (!norm) return rows;
    const std::string of_heads = context.node("Reshape", {rows, context.list({0, 0, heads, transformer.head_size})});
    return context.node("Reshape", {context.normalized(of_heads, *norm), context.list({0, 0, -1})});
  };
  const std::string query = projected(attention.query, attention.query_norm, transformer.heads);
  const std::string key = projected(attention.key, attention.key_norm, transformer.kv_heads);
  const std::string value = projected(attention.value, std::nullopt, transformer.kv_heads);
  std::string cosines, sines;
  if (attention.rotary) {
    const Rotary& rotary = transformer.rotary.at(*attention.rotary);
    const auto table = [&](const char* function, float (*compute)(float)) {
      return rotary_table(context, rotary, *attention.rotary, max_tokens, function, compute);
    };
    cosines = table("cos_cache", [](float angle) { return std::cos(angle); });
    sines = table("sin_cache", [](float angle) { return std::sin(angle); });
  }
  onnx::Attributes attributes{{"num_heads", transformer.heads},
                              {"kv_num_heads", transformer.kv_heads},
                              {"scale", attention.score_scale},
                              {"do_rotary", std::int64_t{attention.rotary ? 1 : 0}}};
  // It counts the query's own position.
  if (attention.window) attributes.emplace_back("local_window_size", *attention.window + 1);
  const std::string attended = fmt::format("attention.{}", layer);
  std::vector<std::string> inputs{query,
                                  key,
                                  value,
                                  past_name(layer, "key"),
                                  past_name(layer, "value"),
                                  last_positions(context),
                                  total_length(context)};
  if (attention.rotary) inputs.insert(inputs.end(), {cosines, sines});
  context.graph().contributed_node("GroupQueryAttention", inputs, attributes,
                                   {attended, present_name(layer, "key"), present_name(layer, "value")});
  return context.linear(attended, attention.output);
}

}  // namespace gpux::importer
