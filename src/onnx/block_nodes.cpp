#include "onnx/block_nodes.h"

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace gpux::onnx {
namespace {

/// A matrix whose parts are written one after the other: made for the first, and moved out of.
struct Parts {
  BlockSource source;
  std::optional<BlockMatrix> matrix;

  BlockMatrix& made() {
    if (!matrix) matrix = source();
    return *matrix;
  }
};

std::vector<std::string> inputs_of(const std::string& first, const std::string& second, const BlockConstant& matrix) {
  std::vector<std::string> inputs{first, second, matrix.scales};
  if (!matrix.zero_points.empty()) inputs.push_back(matrix.zero_points);
  return inputs;
}

}  // namespace

BlockConstant add_blocks(GraphWriter& graph, std::string_view name, std::int64_t rows, std::int64_t columns,
                         const BlockFormat& format, BlockSource source) {
  const std::int64_t blocks = format.blocks_per_row(columns);
  BlockConstant constant{.values = std::string(name),
                         .scales = fmt::format("{}.scales", name),
                         .zero_points = {},
                         .rows = rows,
                         .columns = columns,
                         .format = format};
  const auto parts = std::make_shared<Parts>(Parts{std::move(source), std::nullopt});
  graph.constant(constant.values, ElementType::uint8, {rows, blocks, format.block_bytes()},
                 [parts] { return std::move(parts->made().values); });
  graph.constant(constant.scales, ElementType::float32, {rows, blocks},
                 [parts] { return std::move(parts->made().scales); });
  if (!format.has_zero_points) return constant;
  constant.zero_points = fmt::format("{}.zero_points", name);
  graph.constant(constant.zero_points, ElementType::uint8, {rows, format.zero_point_bytes_per_row(columns)},
                 [parts] { return std::move(parts->made().zero_points); });
  return constant;
}

std::string multiply_blocks(GraphWriter& graph, const std::string& input, const BlockConstant& matrix,
                            std::string_view output) {
  constexpr std::int64_t int8_products = 4;
  return graph.contributed_value("MatMulNBits", inputs_of(input, matrix.values, matrix),
                                 {{"K", matrix.columns},
                                  {"N", matrix.rows},
                                  {"bits", std::int64_t{matrix.format.bits}},
                                  {"block_size", matrix.format.block_size},
                                  {"accuracy_level", int8_products}},
                                 output);
}

std::string gather_blocks(GraphWriter& graph, const std::string& indices, const BlockConstant& matrix,
                          std::string_view output) {
  const std::int64_t blocks = matrix.format.blocks_per_row(matrix.columns);
  const bool is_filled_up = blocks * matrix.format.block_size != matrix.columns;
  const std::array<std::int64_t, 2> sizes{matrix.rows, blocks * matrix.format.block_bytes()};
  const std::string rows = graph.node("Reshape", {matrix.values, graph.integers(sizes)});
  const std::string gathered = graph.contributed_value("GatherBlockQuantized", inputs_of(rows, indices, matrix),
                                                       {{"gather_axis", std::int64_t{0}},
                                                        {"quantize_axis", std::int64_t{1}},
                                                        {"bits", std::int64_t{matrix.format.bits}},
                                                        {"block_size", matrix.format.block_size}},
                                                       is_filled_up ? std::string_view() : output);
  if (!is_filled_up) return gathered;
  const auto list = [&](std::int64_t element) { return graph.integers(std::array{element}); };
  const std::string start = list(0);
  const std::string end = list(matrix.columns);
  return graph.node("Slice", {gathered, start, end, list(-1)}, {}, output);
}

}  // namespace gpux::onnx
