// Nodes with weights in blocks, as ONNX Runtime computes them.
#include "onnx/block_nodes.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/runtime.h"
#include "onnx/block_products.h"

namespace gpux::onnx {
namespace {

struct Case {
  BlockFormat format;
  std::int64_t columns = 256;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& [format, columns] = info.param;
  const std::string minimums = format.has_minimums ? "_and_minimums" : "";
  return std::to_string(format.bits) + "_bits_" + std::to_string(format.block_size) + "_of_" + std::to_string(columns) +
         (format.has_zero_points ? "_with_zero_points" : "") + minimums;
}

class BlockNodes : public testing::TestWithParam<Case> {};

// One table gives the rows and multiplies them, as that of tied embeddings does.
TEST_P(BlockNodes, ShareATable) {
  const auto& [format, columns] = GetParam();
  constexpr std::int64_t rows = 48, tokens = 3;
  std::vector<float> table;
  for (std::int64_t i = 0; i < rows * columns; ++i) table.push_back(std::sin(static_cast<float>(i * i % 977)));
  auto blocks = quantize_to_blocks(table, rows, columns, format);
  ASSERT_TRUE(blocks);
  if (format.has_minimums) {
    for (std::size_t i = 0; i < blocks->scales.size(); ++i) {
      blocks->minimums.push_back(std::cos(static_cast<float>(i)));
    }
  }
  const test::TemporaryFolder folder;
  GraphWriter graph("tied");
  const std::array<WrittenSize, 2> ids{1, tokens};
  const std::array<WrittenSize, 3> embedded{1, tokens, columns}, logits{1, tokens, rows};
  graph.input("ids", ElementType::int64, ids);
  graph.output("embedded", ElementType::float32, embedded);
  graph.output("logits", ElementType::float32, logits);
  int calls = 0;
  const BlockConstant constant = add_blocks(graph, "table", rows, columns, format, [&, made = *blocks] {
    ++calls;
    return made;
  });
  const std::string given = "ids", gathered = "embedded";
  gather_blocks(graph, {.name = given, .rank = 2}, constant, gathered);
  const std::string sums =
      format.has_minimums ? sums_of_blocks(graph, {.name = gathered, .rank = 3}, constant) : std::string();
  multiply_blocks(graph, gathered, constant, "logits", sums);
  graph.write(folder.path() / "tied.onnx", 20, 9);
  EXPECT_EQ(calls, 1);
  const std::string content = read_file(folder.path() / "tied.onnx");
  constexpr auto products = static_cast<std::uint64_t>(rows);
  EXPECT_EQ(block_products(content, rows), (BlockProducts{.head = products * static_cast<std::uint64_t>(columns)}));
  EXPECT_EQ(block_products(content, 100), (BlockProducts{.layers = products * static_cast<std::uint64_t>(columns)}));

  const Runtime runtime(folder.path() / "tied.onnx", {.provider = "cpu"});
  const std::array<std::int64_t, tokens> chosen{47, 0, 5};
  const NamedValues outputs = runtime.infer({{"ids", Tensor::of<std::int64_t>({1, tokens}, chosen)}});
  const std::vector<float> elements = elements_of(*blocks, rows, columns, format);
  const auto row = [&](std::int64_t index) {
    const auto first = elements.begin() + index * columns;
    return std::vector<float>(first, first + columns);
  };
  std::vector<float> expected_rows, expected_logits;
  for (const std::int64_t index : chosen) {
    const std::vector<float> one = row(index);
    expected_rows.insert(expected_rows.end(), one.begin(), one.end());
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::vector<float> other = row(i);
      float sum = 0;
      for (std::size_t k = 0; k < one.size(); ++k) sum += one[k] * other[k];
      expected_logits.push_back(sum);
    }
  }
  EXPECT_THAT(outputs[0].second.tensor()->as<float>(), testing::Pointwise(testing::FloatEq(), expected_rows));
  // The operator rounds its input to 8 bits.
  const float tolerance = (format.has_minimums ? 0.06F : 0.02F) * std::sqrt(static_cast<float>(columns));
  EXPECT_THAT(outputs[1].second.tensor()->as<float>(),
              testing::Pointwise(testing::FloatNear(tolerance), expected_logits));
}

INSTANTIATE_TEST_SUITE_P(All, BlockNodes,
                         testing::Values(Case{{4, 16, false}}, Case{{4, 16, true}}, Case{{8, 16, false}},
                                         Case{{4, 32, false}}, Case{{4, 32, true}}, Case{{4, 128, false}},
                                         Case{{4, 128, true}}, Case{{8, 32, false}}, Case{{8, 32, true}},
                                         Case{{8, 128, false}}, Case{{8, 128, true}}, Case{{4, 32, false}, 80},
                                         Case{{4, 128, true}, 200}, Case{{8, 128, true}, 576}, Case{{8, 32, false}, 48},
                                         Case{{4, 32, true, true}}, Case{{4, 16, true, true}},
                                         Case{{8, 32, true, true}, 96}, Case{{8, 16, false, true}}),
                         name_of);

}  // namespace
}  // namespace gpux::onnx
