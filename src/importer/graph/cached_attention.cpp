#include "importer/graph/cached_attention.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "importer/graph/distances.h"

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

/// The two tables of a rotation.
struct RotaryTables {
  std::string cosines, sines;
};

RotaryTables rotary_tables(GraphContext& context, const Transformer& transformer, std::size_t index,
                           std::int64_t positions) {
  const Rotary& rotary = transformer.rotary.at(index);
  const auto table = [&](const char* function, float (*compute)(float)) {
    return rotary_table(context, rotary, index, positions, function, compute);
  };
  return {table("cos_cache", [](float angle) { return std::cos(angle); }),
          table("sin_cache", [](float angle) { return std::sin(angle); })};
}

// What GroupQueryAttention accepts.
bool is_rotated_by_operator(const Transformer& transformer, const Rotary& rotary) {
  constexpr std::int64_t unit = 16;
  return transformer.head_size % unit == 0 && 2 * rotary.frequencies.size() % unit == 0;
}

std::string part(GraphContext& context, const std::string& values, std::int64_t from, std::int64_t to) {
  const std::string start = context.list({from});
  const std::string end = context.list({to});
  return context.node("Slice", {values, start, end, context.list({-1})});
}

// float[batch, sequence, 1, dimensions / 2]: the rows of a table for the tokens of this run
const std::string& rows_of(GraphContext& context, const std::string& table) {
  return context.once("rows of " + table, [&] {
    const std::string rows = context.node("Gather", {table, token_positions(context)});
    return context.node("Unsqueeze", {rows, context.list({2})});
  });
}

// [batch, sequence, heads * head_size], rotated
std::string rotated(GraphContext& context, const Transformer& transformer, std::size_t index,
                    const RotaryTables& tables, std::int64_t heads, const std::string& input) {
  const auto half = static_cast<std::int64_t>(transformer.rotary.at(index).frequencies.size());
  const std::string values = context.node("Reshape", {input, context.list({0, 0, heads, transformer.head_size})});
  const std::string cosines = rows_of(context, tables.cosines), sines = rows_of(context, tables.sines);
  const std::string first = part(context, values, 0, half), second = part(context, values, half, 2 * half);
  const auto product = [&](const std::string& one, const std::string& other) {
    return context.node("Mul", {one, other});
  };
  const std::string straight = product(first, cosines), turned = product(second, sines);
  const std::string first_turned = context.node("Sub", {straight, turned});
  const std::string other_straight = product(second, cosines), other_turned = product(first, sines);
  std::vector<std::string> parts{first_turned, context.node("Add", {other_straight, other_turned})};
  if (2 * half != transformer.head_size) parts.push_back(part(context, values, 2 * half, transformer.head_size));
  const std::string whole = context.node("Concat", parts, {{"axis", std::int64_t{-1}}});
  return context.node("Reshape", {whole, context.list({0, 0, -1})});
}

void require_supported(const Transformer& transformer, const Attention& attention) {
  constexpr std::int64_t unit = 8;  // GroupQueryAttention's
  if (transformer.head_size % unit != 0) {
    throw Error(ErrorCode::invalid_config, fmt::format("config.json: heads of {} elements are not supported for models "
                                                       "that generate text; accepted: multiples of {}",
                                                       transformer.head_size, unit));
  }
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

std::string token_positions(GraphContext& context) {
  return context.once("token positions", [&] {
    const std::string counted =
        context.node("ReduceSum", {"attention_mask", context.list({1})}, {{"keepdims", std::int64_t{1}}});
    const std::string past = context.node("Sub", {counted, context.sequence_length()});
    const std::string count = token_count(context);
    const std::string zero = context.graph().integer(0);
    const std::string range = context.node("Range", {zero, count, context.graph().integer(1)});
    return context.node("Add", {past, range});
  });
}

std::string cached_attention(GraphContext& context, const Transformer& transformer, const Attention& attention,
                             std::size_t layer, std::int64_t max_tokens, const std::string& input) {
  require_supported(transformer, attention);
  const auto projected = [&](const Linear& linear, const std::optional<Norm>& norm, std::int64_t heads) {
    const std::string rows = context.linear(input, linear);
    if (!norm) return rows;
    if (norm->size != transformer.head_size) return context.normalized(rows, *norm);
    const std::string of_heads = context.node("Reshape", {rows, context.list({0, 0, heads, transformer.head_size})});
    return context.node("Reshape", {context.normalized(of_heads, *norm), context.list({0, 0, -1})});
  };
  std::string query = projected(attention.query, attention.query_norm, transformer.heads);
  std::string key = projected(attention.key, attention.key_norm, transformer.kv_heads);
  const std::string value = projected(attention.value, std::nullopt, transformer.kv_heads);
  std::optional<RotaryTables> tables;
  if (attention.rotary) {
    const std::size_t index = *attention.rotary;
    tables = rotary_tables(context, transformer, index, max_tokens);
    if (!is_rotated_by_operator(transformer, transformer.rotary.at(index))) {
      query = rotated(context, transformer, index, *tables, transformer.heads, query);
      key = rotated(context, transformer, index, *tables, transformer.kv_heads, key);
      tables.reset();
    }
  }
  onnx::Attributes attributes{{"num_heads", transformer.heads},
                              {"kv_num_heads", transformer.kv_heads},
                              {"scale", attention.score_scale},
                              {"do_rotary", std::int64_t{tables ? 1 : 0}}};
  if (attention.soft_cap != 0) attributes.emplace_back("softcap", attention.soft_cap);
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
  if (tables) inputs.insert(inputs.end(), {tables->cosines, tables->sines});
  context.graph().contributed_node("GroupQueryAttention", inputs, attributes,
                                   {attended, present_name(layer, "key"), present_name(layer, "value")});
  return context.linear(attended, attention.output);
}

}  // namespace gpux::importer
