#include <algorithm>
#include <chrono>
#include <vector>

#include <gmock/gmock.h>

#include "cpu_runtime.h"

namespace gpux {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class ResultMemory : public CpuRuntime {};

/// The floats of a tensor, or of a sequence's only tensor.
std::vector<float> floats_in(const Value& value) {
  const Sequence* sequence = value.sequence();
  const Value& inner = sequence == nullptr ? value : sequence->values.at(0);
  const auto values = inner.tensor()->as<float>();
  return {values.begin(), values.end()};
}

TEST_F(ResultMemory, IsNotThatOfAnInput) {
  struct Case {
    const char* model;
    Shape shape;
    bool is_sequence;
  };

  for (const Case& one : {Case{"pass_through", {1, 3}, false}, Case{"pass_through_sequence", {3}, true},
                          Case{"pass_through_optional", {3}, false}, Case{"identity_float32", {3}, false}}) {
    for (const bool has_owner : {false, true}) {
      for (const bool has_deadline : {false, true}) {
        SCOPED_TRACE(testing::Message() << one.model << ", owner " << has_owner << ", deadline " << has_deadline);
        std::vector<float> memory{1, 2, 3};
        std::shared_ptr<const void> owner;
        if (has_owner) owner = std::shared_ptr<const void>(&memory, [](const void*) {});
        Value input = Tensor::borrow(ElementType::float32, one.shape, std::as_bytes(std::span(memory)), owner);
        if (one.is_sequence) input = Sequence{{input}};
        InferOptions options;
        if (has_deadline) options.timeout = 60s;
        const NamedValues outputs = Runtime(test_model(one.model)).infer({{"x", input}}, options);
        std::fill(memory.begin(), memory.end(), -1.0F);
        EXPECT_THAT(floats_in(outputs.front().second), ElementsAre(1, 2, 3));
      }
    }
  }
}

TEST_F(ResultMemory, OutlivesTheJoinedInputsOfAList) {
  const Runtime runtime(test_model("pass_through"));
  const NamedValues items[] = {{{"x", floats({1, 3}, {1, 2, 3})}}, {{"x", floats({2, 3}, {4, 5, 6, 7, 8, 9})}}};
  const std::vector<NamedValues> results = runtime.batch_infer(items);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_THAT(floats_in(*find(results[0], "x")), ElementsAre(1, 2, 3));
  EXPECT_THAT(floats_in(*find(results[0], "y")), ElementsAre(2, 3, 4));
  EXPECT_THAT(floats_in(*find(results[1], "x")), ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(floats_in(*find(results[1], "y")), ElementsAre(5, 6, 7, 8, 9, 10));
}

TEST_F(ResultMemory, OfOneTensorGivenTwiceIsCopiedToo) {
  std::vector<float> memory{1, 2, 3, 4};
  const Tensor whole = Tensor::borrow(ElementType::float32, {4}, std::as_bytes(std::span(memory)));
  const Value sequence = Sequence{{whole, whole.rows(0, 2), whole.rows(1, 3)}};
  const NamedValues outputs = Runtime(test_model("pass_through_sequence")).infer({{"x", sequence}});
  std::fill(memory.begin(), memory.end(), -1.0F);
  const std::vector<Value>& values = outputs.front().second.sequence()->values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_THAT(floats_in(values[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(floats_in(values[1]), ElementsAre(1, 2));
  EXPECT_THAT(floats_in(values[2]), ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace gpux
