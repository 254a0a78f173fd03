#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "onnx/block_weights.h"
#include "onnx/graph_writer.h"

namespace gpux::onnx {

/// Makes a matrix of blocks, when the file is written. Its sizes are those that were declared.
using BlockSource = std::function<BlockMatrix()>;

/// A matrix of blocks among a graph's constants, which several nodes may share.
struct BlockConstant {
  std::string values;       ///< uint8[rows, blocks_per_row, block_bytes]; has the matrix's own name
  std::string scales;       ///< float[rows, blocks_per_row]: NAME.scales
  std::string zero_points;  ///< uint8[rows, zero_point_bytes_per_row]: NAME.zero_points; empty without
  std::string minimums;     ///< float[blocks_per_row, rows]: NAME.minimums; empty without
  std::int64_t rows = 0, columns = 0;
  BlockFormat format;
};

/// Adds the matrix [rows, columns] to the constants. `source` is called once, by GraphWriter::write(), which holds one
/// such matrix at a time. Error internal: minimums of rows that are no whole blocks.
BlockConstant add_blocks(GraphWriter& graph, std::string_view name, std::int64_t rows, std::int64_t columns,
                         const BlockFormat& format, BlockSource source);

/// A value of a graph with so many axes.
struct RankedValue {
  const std::string& name;
  std::size_t rank;
};

/// The sums of each block of a value [..., columns], [..., blocks]: a ReduceSum of the value reshaped. Products with
/// minimums need them: those of one value can share them.
std::string sums_of_blocks(GraphWriter& graph, const RankedValue& value, const BlockConstant& matrix);

/// input [..., columns] times the matrix transposed, [..., rows]: a MatMulNBits (com.microsoft). Its products are of
/// 8-bit integers (accuracy_level 4): without, ONNX Runtime has no fast kernel for 8-bit weights on the CPU. With
/// minimums, the product of `sums`, sums_of_blocks() of the input, and them is taken away: a MatMul and a Sub. The
/// operator's own zero points would do, but ONNX Runtime 1.31.1 has no fast kernel for those that are no whole numbers.
std::string multiply_blocks(GraphWriter& graph, const std::string& input, const BlockConstant& matrix,
                            std::string_view output = {}, const std::string& sums = {});

/// Rows of the matrix, [..., columns], by indices, int64[...]: GatherBlockQuantized (com.microsoft) of the values
/// reshaped to [rows, bytes], as that operator takes them; a Slice follows where the last block is filled up. With
/// minimums, those of the rows are gathered, and taken away from the rows reshaped to blocks.
std::string gather_blocks(GraphWriter& graph, const RankedValue& indices, const BlockConstant& matrix,
                          std::string_view output = {});

}  // namespace gpux::onnx
