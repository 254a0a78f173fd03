#include "onnx/block_nodes.h"

#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"

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

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<float> turned;
  turned.reserve(matrix.size());
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      turned.push_back(matrix[static_cast<std::size_t>(row * columns + column)]);
    }
  }
  return turned;
}

// Of a value [..., columns]: [..., blocks, block_size].
std::vector<std::int64_t> block_shape(std::size_t rank, const BlockConstant& matrix) {
  std::vector<std::int64_t> shape(rank - 1, 0);
  shape.insert(shape.end(), {matrix.format.blocks_per_row(matrix.columns), matrix.format.block_size});
  return shape;
}

}  // namespace

BlockConstant add_blocks(GraphWriter& graph, std::string_view name, std::int64_t rows, std::int64_t columns,
                         const BlockFormat& format, BlockSource source) {
  const std::int64_t blocks = format.blocks_per_row(columns);
  if (format.has_minimums && blocks * format.block_size != columns) {
    throw Error(ErrorCode::internal,
                fmt::format("{} has minimums, and rows of {} elements, which are no whole blocks", name, columns));
  }
  BlockConstant constant{.values = std::string(name),
                         .scales = fmt::format("{}.scales", name),
                         .zero_points = {},
                         .minimums = {},
                         .rows = rows,
                         .columns = columns,
                         .format = format};
  const auto parts = std::make_shared<Parts>(Parts{std::move(source), std::nullopt});
  graph.constant(constant.values, ElementType::uint8, {rows, blocks, format.block_bytes()},
                 [parts] { return std::move(parts->made().values); });
  graph.constant(constant.scales, ElementType::float32, {rows, blocks},
                 [parts] { return std::move(parts->made().scales); });
  if (format.has_zero_points) {
    constant.zero_points = fmt::format("{}.zero_points", name);
    graph.constant(constant.zero_points, ElementType::uint8, {rows, format.zero_point_bytes_per_row(columns)},
                   [parts] { return std::move(parts->made().zero_points); });
  }
  if (format.has_minimums) {
    constant.minimums = fmt::format("{}.minimums", name);
    graph.constant(constant.minimums, ElementType::float32, {blocks, rows}, [parts, rows, blocks] {
      const std::vector<float> minimums = std::move(parts->made().minimums);
      return transposed(minimums, rows, blocks);
    });
  }
  return constant;
}

std::string sums_of_blocks(GraphWriter& graph, const RankedValue& value, const BlockConstant& matrix) {
  const std::string blocks = graph.node("Reshape", {value.name, graph.integers(block_shape(value.rank, matrix))});
  return graph.node("ReduceSum", {blocks, graph.integers(std::array<std::int64_t, 1>{-1})},
                    {{"keepdims", std::int64_t{0}}});
}

std::string multiply_blocks(GraphWriter& graph, const std::string& input, const BlockConstant& matrix,
                            std::string_view output, const std::string& sums) {
  constexpr std::int64_t int8_products = 4;
  const bool has_minimums = matrix.format.has_minimums;
  const std::string product = graph.contributed_value("MatMulNBits", inputs_of(input, matrix.values, matrix),
                                                      {{"K", matrix.columns},
                                                       {"N", matrix.rows},
                                                       {"bits", std::int64_t{matrix.format.bits}},
                                                       {"block_size", matrix.format.block_size},
                                                       {"accuracy_level", int8_products}},
                                                      has_minimums ? std::string_view() : output);
  if (!has_minimums) return product;
  return graph.node("Sub", {product, graph.node("MatMul", {sums, matrix.minimums})}, {}, output);
}

std::string gather_blocks(GraphWriter& graph, const RankedValue& indices, const BlockConstant& matrix,
                          std::string_view output) {
  const std::int64_t blocks = matrix.format.blocks_per_row(matrix.columns);
  const bool is_filled_up = blocks * matrix.format.block_size != matrix.columns;
  const bool is_last = !is_filled_up && !matrix.format.has_minimums;
  const std::array<std::int64_t, 2> sizes{matrix.rows, blocks * matrix.format.block_bytes()};
  const std::string rows = graph.node("Reshape", {matrix.values, graph.integers(sizes)});
  const std::string gathered = graph.contributed_value("GatherBlockQuantized", inputs_of(rows, indices.name, matrix),
                                                       {{"gather_axis", std::int64_t{0}},
                                                        {"quantize_axis", std::int64_t{1}},
                                                        {"bits", std::int64_t{matrix.format.bits}},
                                                        {"block_size", matrix.format.block_size}},
                                                       is_last ? output : std::string_view());
  if (is_last) return gathered;
  const auto list = [&](std::int64_t element) { return graph.integers(std::array{element}); };
  if (matrix.format.has_minimums) {
    std::vector<std::int64_t> whole(indices.rank, 0);
    whole.push_back(matrix.columns);
    const std::string split = graph.node("Reshape", {gathered, graph.integers(block_shape(indices.rank + 1, matrix))});
    // [blocks, ...] to [..., blocks].
    std::vector<std::int64_t> order(indices.rank + 1, 0);
    std::iota(order.begin(), order.end() - 1, std::int64_t{1});
    const std::string gathered_minimums =
        graph.node("Gather", {matrix.minimums, indices.name}, {{"axis", std::int64_t{1}}});
    const std::string minimums =
        graph.node("Unsqueeze", {graph.node("Transpose", {gathered_minimums}, {{"perm", order}}), list(-1)});
    return graph.node("Reshape", {graph.node("Sub", {split, minimums}), graph.integers(whole)}, {}, output);
  }
  const std::string start = list(0);
  const std::string end = list(matrix.columns);
  return graph.node("Slice", {gathered, start, end, list(-1)}, {}, output);
}

}  // namespace gpux::onnx
