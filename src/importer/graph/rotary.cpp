#include "importer/graph/rotary.h"

#include <fmt/format.h>

#include "importer/graph/distances.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t type_float = 1;  // ONNX's TensorProto.DataType

std::string angles(GraphContext& context, const Rotary& rotary, std::size_t table) {
  return context.once(fmt::format("angles {}", table), [&] {
    const std::string positions = context.once("float positions", [&] {
      const std::string count = token_count(context);
      const std::string zero = context.graph().integer(0);
      const std::string range = context.node("Range", {zero, count, context.graph().integer(1)});
      const std::string numbers = context.node("Cast", {range}, {{"to", type_float}});
      return context.node("Unsqueeze", {numbers, context.list({1})});
    });
    const auto size = static_cast<std::int64_t>(rotary.frequencies.size());
    const std::string frequencies =
        context.graph().floats(fmt::format("rotary_frequencies_{}", table), rotary.frequencies, {1, size});
    const std::string half = context.node("Mul", {positions, frequencies});
    return context.node("Concat", {half, half}, {{"axis", std::int64_t{-1}}});
  });
}

std::string table_of(GraphContext& context, const Rotary& rotary, std::size_t table, const char* function) {
  return context.once(fmt::format("{} {}", function, table), [&] {
    const std::string values = context.node(function, {angles(context, rotary, table)});
    if (rotary.attention_factor == 1) return values;
    return context.node("Mul", {values, context.scalar(rotary.attention_factor)});
  });
}

std::string part(GraphContext& context, const std::string& values, std::int64_t from, std::int64_t to) {
  const std::string start = context.list({from});
  const std::string end = context.list({to});
  return context.node("Slice", {values, start, end, context.list({-1})});
}

}  // namespace

std::string rotated(GraphContext& context, const Transformer& transformer, std::size_t table,
                    const std::string& heads) {
  const Rotary& rotary = transformer.rotary.at(table);
  const auto half = static_cast<std::int64_t>(rotary.frequencies.size());
  const bool is_partial = 2 * half != transformer.head_size;
  const std::string cosines = table_of(context, rotary, table, "Cos");
  const std::string sines = table_of(context, rotary, table, "Sin");
  const std::string values = is_partial ? part(context, heads, 0, 2 * half) : heads;
  const std::string second = context.node("Neg", {part(context, values, half, 2 * half)});
  const std::string turned =
      context.node("Concat", {second, part(context, values, 0, half)}, {{"axis", std::int64_t{-1}}});
  const std::string straight = context.node("Mul", {values, cosines});
  const std::string sum = context.node("Add", {straight, context.node("Mul", {turned, sines})});
  if (!is_partial) return sum;
  return context.node("Concat", {sum, part(context, heads, 2 * half, transformer.head_size)},
                      {{"axis", std::int64_t{-1}}});
}

}  // namespace gpux::importer
