#include "runtime/scheduling/batch.h"

#include <gmock/gmock.h>

#include "cpu_runtime.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedValues item(const char* name, Tensor value) {
  return {{name, std::move(value)}};
}

std::vector<std::vector<std::size_t>> groups_of(const std::vector<NamedValues>& items, std::uint64_t limit) {
  std::vector<std::vector<std::size_t>> groups;
  for (const runtime::BatchGroup& group : runtime::plan_batches(items, limit)) groups.push_back(group.items);
  return groups;
}

TEST(PlanBatches, PutsTogetherWhatAgreesBeyondTheFirstDimension) {
  using Groups = std::vector<std::vector<std::size_t>>;
  const auto a = [](std::int64_t rows, std::int64_t width) {
    return item("x", Tensor::allocate(ElementType::float32, {rows, width}));
  };
  const NamedValues other_type = item("x", Tensor::allocate(ElementType::float64, {1, 3}));
  const NamedValues other_name = item("y", Tensor::allocate(ElementType::float32, {1, 3}));
  const NamedValues packed = item("x", Tensor::allocate(ElementType::int4, {1, 3}));
  const NamedValues scalar = item("x", Tensor::allocate(ElementType::float32, {}));
  const NamedValues uneven{{"a", Tensor::allocate(ElementType::float32, {1, 3})},
                           {"b", Tensor::allocate(ElementType::float32, {2, 3})}};
  const NamedValues sequence{{"x", Sequence{}}};

  struct Case {
    std::vector<NamedValues> items;
    std::uint64_t limit;
    Groups groups;
  };

  const Case cases[] = {{{}, 0, {}},
                        {{a(1, 3), a(1, 3), a(2, 3)}, 0, {{0, 1, 2}}},
                        {{a(1, 3), a(1, 3), a(2, 3)}, 3, {{0, 1}, {2}}},
                        {{a(5, 3), a(1, 3)}, 3, {{0}, {1}}},
                        {{a(1, 3), a(1, 4), a(1, 3), a(1, 4)}, 0, {{0, 2}, {1, 3}}},
                        {{a(1, 3), other_type, other_name}, 0, {{0}, {1}, {2}}},
                        {{packed, packed}, 0, {{0}, {1}}},
                        {{scalar, scalar}, 0, {{0}, {1}}},
                        {{uneven, uneven}, 0, {{0}, {1}}},
                        {{a(0, 3), a(0, 3), a(1, 0), a(1, 0)}, 0, {{0}, {1}, {2}, {3}}},
                        {{a(1, 3), a(1, 3), a(1, 3), a(2, 3), a(1, 3)}, 2, {{0, 1}, {2, 4}, {3}}},
                        {{sequence, sequence}, 0, {{0}, {1}}}};
  for (const Case& c : cases) EXPECT_EQ(groups_of(c.items, c.limit), c.groups);
}

LoadOptions with_axis(BatchAxis axis) {
  LoadOptions options;
  options.batch_axis = axis;
  return options;
}

class BatchInfer : public CpuRuntime {};

TEST_F(BatchInfer, GivesEachItemItsOwnRows) {
  const Runtime runtime(test_model("add"));
  const std::vector<NamedValues> items{item("x", floats({1, 3}, {0, 0, 0})),
                                       item("x", floats({2, 3}, {1, 1, 1, 2, 2, 2})),
                                       item("x", floats({1, 3}, {9, 9, 9}))};
  for (const std::uint64_t limit : {0, 1, 2, 3}) {
    const std::vector<NamedValues> results = runtime.batch_infer(items, {}, limit);
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(results[1][0].second.tensor()->shape(), (Shape{2, 3}));
    EXPECT_THAT(results[0][0].second.tensor()->as<float>(), ElementsAre(1, 2, 3));
    EXPECT_THAT(results[1][0].second.tensor()->as<float>(), ElementsAre(2, 3, 4, 3, 4, 5));
    EXPECT_THAT(results[2][0].second.tensor()->as<float>(), ElementsAre(10, 11, 12));
  }
  EXPECT_TRUE(runtime.batch_infer({}).empty());
}

// Each row of its answer is the sum of the rows before it: it shows what shared its run.
TEST_F(BatchInfer, SharesRunsOnlyWhereItMayAndInBounds) {
  const std::vector<NamedValues> items(40, item("x", floats({1, 4}, {1, 1, 1, 1})));
  const auto first_numbers = [&](const Runtime& runtime, std::uint64_t limit) {
    std::vector<float> numbers;
    for (const NamedValues& result : runtime.batch_infer(items, {}, limit)) {
      numbers.push_back(result[0].second.tensor()->as<float>()[0]);
    }
    return numbers;
  };
  const std::filesystem::path model = test_model("no_batch/cumulative_sum");
  const std::vector<float> alone(40, 1);
  EXPECT_EQ(first_numbers(Runtime(model), 0), alone);
  EXPECT_EQ(first_numbers(Runtime(model, with_axis(BatchAxis::none)), 0), alone);
  const Runtime sharing(model, with_axis(BatchAxis::zero));
  EXPECT_EQ(sharing.run_sharing().source, RunSharing::Source::setting);
  EXPECT_EQ(first_numbers(sharing, 1), alone);
  const std::vector<float> bounded = first_numbers(sharing, 0);
  EXPECT_EQ(bounded[31], 32);
  EXPECT_EQ(bounded[32], 1);
  EXPECT_EQ(first_numbers(sharing, 3)[2], 3);
  EXPECT_EQ(first_numbers(sharing, 3)[3], 1);
}

TEST_F(BatchInfer, RunsOneByOneWhereASharedRunFails) {
  const Runtime runtime(test_model("gather"), with_axis(BatchAxis::zero));
  const auto index = [](std::int64_t at) { return item("index", tensor<std::int64_t>({1}, {at})); };
  EXPECT_EQ(runtime.batch_infer(std::vector{index(0), index(2)})[1][0].second.tensor()->as<float>()[0], 30);
  try {
    (void)runtime.batch_infer(std::vector{index(0), index(1), index(7), index(2)});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.message(), HasSubstr("item 2: "));
  }
}

TEST_F(BatchInfer, RunsAFixedBatchOneByOne) {
  const Runtime runtime(test_model("matmul_chain"));
  const std::vector<float> ones(16, 1), zeros(16, 0);
  const std::vector<NamedValues> items{item("x", Tensor::of<float>({1, 16}, ones)),
                                       item("x", Tensor::of<float>({1, 16}, zeros))};
  const std::vector<NamedValues> results = runtime.batch_infer(items);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_NEAR(results[0][0].second.tensor()->as<float>()[0], 0.29174107F, 1e-5F);
  EXPECT_EQ(results[1][0].second.tensor()->as<float>()[0], 0);
}

TEST_F(BatchInfer, NamesTheItemThatDoesNotFit) {
  const Runtime runtime(test_model("matmul_chain"));
  const std::vector<float> ones(16, 1);
  const std::vector<NamedValues> items{item("x", Tensor::of<float>({1, 16}, ones)), item("x", floats({1, 2}, {1, 2}))};
  try {
    (void)runtime.batch_infer(items);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.message(), HasSubstr("item 1: input 'x' takes float32[1, 16], got float32[1, 2]"));
  }
}

}  // namespace
}  // namespace gpux
