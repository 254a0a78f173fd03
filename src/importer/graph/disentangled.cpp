#include "importer/graph/disentangled.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "importer/graph/distances.h"

namespace gpux::importer {
namespace {

const Linear& required(const std::optional<Linear>& projection, std::string_view attention) {
  if (projection) return *projection;
  throw Error(ErrorCode::invalid_model, fmt::format("the attention {} has no projection", attention));
}

std::string table_rows(GraphContext& context, const Transformer& transformer, const Disentangled& disentangled) {
  return context.once("relative position table", [&] {
    const std::string table = context.tensor(disentangled.table, {2 * disentangled.span, transformer.hidden_size});
    return disentangled.norm ? context.normalized(table, *disentangled.norm) : table;
  });
}

// [heads, head size, rows]
std::string projected_table(GraphContext& context, const Transformer& transformer, const Disentangled& disentangled,
                            const Linear& projection, float scale) {
  const std::string rows = context.linear(table_rows(context, transformer, disentangled), projection, scale);
  const std::string heads =
      context.node("Reshape", {rows, context.list({0, transformer.heads, transformer.head_size})});
  return context.node("Transpose", {heads}, {{"perm", std::vector<std::int64_t>{1, 2, 0}}});
}

// int64[query, key]
std::string row_of_pair(GraphContext& context, const Disentangled& disentangled) {
  return context.once("relative row", [&] {
    // Beyond this distance the row stays the same.
    const std::int64_t most = disentangled.buckets > 0 ? disentangled.max_positions : disentangled.span;
    std::vector<std::int64_t> rows;
    for (std::int64_t distance = -most; distance <= most; ++distance) {
      rows.push_back(disentangled_row(-distance, disentangled));
    }
    const std::string buckets = context.graph().integers(rows);
    return context.node("Gather", {buckets, distance_index(context, most)});
  });
}

// [batch, heads, query, key]
std::string expanded(GraphContext& context, const std::string& index, const std::string& queries) {
  const std::string first = context.node("Shape", {queries}, {{"start", std::int64_t{0}}, {"end", std::int64_t{2}}});
  const std::string length = context.sequence_length();
  const std::string shape = context.node("Concat", {first, length, length}, {{"axis", std::int64_t{0}}});
  return context.node("Expand", {index, shape});
}

std::string gathered(GraphContext& context, const std::string& products, const std::string& index) {
  return context.node("GatherElements", {products, index}, {{"axis", std::int64_t{-1}}});
}

}  // namespace

std::int64_t disentangled_row(std::int64_t relative, const Disentangled& disentangled) {
  std::int64_t bucket = relative;
  const std::int64_t middle = disentangled.buckets / 2;
  const std::int64_t distance = std::abs(relative);
  if (disentangled.buckets > 0 && distance > middle) {
    // In float32, as transformers does it: the result is rounded up.
    const float part = std::log(static_cast<float>(distance) / static_cast<float>(middle)) /
                       std::log(static_cast<float>(disentangled.max_positions - 1) / static_cast<float>(middle));
    bucket = static_cast<std::int64_t>(std::ceil(part * static_cast<float>(middle - 1))) + middle;
    if (relative < 0) bucket = -bucket;
  }
  return std::clamp<std::int64_t>(bucket + disentangled.span, 0, 2 * disentangled.span - 1);
}

std::string disentangled_scores(GraphContext& context, const Transformer& transformer, const Disentangled& disentangled,
                                const Attention& attention, const std::string& queries, const std::string& keys) {
  std::string sum;
  if (disentangled.content_to_position) {
    const std::string table =
        projected_table(context, transformer, disentangled, required(attention.position_key, "content to position"), 1);
    const std::string products = context.node("MatMul", {queries, table});
    const std::string index = context.once(
        "expanded relative row", [&] { return expanded(context, row_of_pair(context, disentangled), queries); });
    sum = gathered(context, products, index);
  }
  if (disentangled.position_to_content) {
    const std::string table =
        projected_table(context, transformer, disentangled, required(attention.position_query, "position to content"),
                        attention.score_scale);
    const std::string products = context.node("MatMul", {keys, table});
    const std::string index = context.once("expanded relative column", [&] {
      const std::string turned =
          context.node("Transpose", {row_of_pair(context, disentangled)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
      return expanded(context, turned, queries);
    });
    const std::string by_query = context.node("Transpose", {gathered(context, products, index)},
                                              {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
    sum = sum.empty() ? by_query : context.node("Add", {sum, by_query});
  }
  return sum;
}

}  // namespace gpux::importer
