// Requests of different lengths in one run of a real model.
#include <future>

#include <gmock/gmock.h>

#include "cpu_runtime.h"
#include "runtime/scheduling/padding.h"
#include "runtime/scheduling/scheduler.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;

class PaddedBatch : public CpuRuntime {
 protected:
  // `values` from 1 on; the mask leaves out the last.
  static NamedValues inputs(std::int64_t rows, std::int64_t length) {
    Tensor values = Tensor::allocate(ElementType::float32, {rows, length});
    Tensor mask = Tensor::allocate(ElementType::float32, {rows, length});
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows * length); ++i) {
      values.mutable_as<float>()[i] = static_cast<float>(i + 1);
      mask.mutable_as<float>()[i] = (i + 1) % static_cast<std::size_t>(length) == 0 ? 0.0F : 1.0F;
    }
    return {{"values", values}, {"mask", mask}};
  }

  static std::future<InferAnswer> send(Scheduler& scheduler, NamedValues inputs) {
    auto promise = std::make_shared<std::promise<InferAnswer>>();
    auto future = promise->get_future();
    scheduler.submit({.inputs = std::move(inputs), .outputs = {0, 1}},
                     [promise](InferAnswer&& answer) { promise->set_value(std::move(answer)); });
    return future;
  }

  static std::vector<float> floats_of(const Tensor& tensor) {
    const auto values = tensor.as<float>();
    return {values.begin(), values.end()};
  }

  static void expect_equal(const NamedValues& got, const NamedValues& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(got[i].first, wanted[i].first);
      EXPECT_EQ(got[i].second.tensor()->shape(), wanted[i].second.tensor()->shape());
      EXPECT_EQ(floats_of(*got[i].second.tensor()), floats_of(*wanted[i].second.tensor()));
    }
  }

  // Full at four rows or 36 elements; what is not full waits.
  [[nodiscard]] std::unique_ptr<Scheduler> scheduler(bool padded) const {
    SchedulerOptions options{.batch = {.max_rows = 4, .max_delay = 1h, .look_ahead = 64, .max_cost = 36},
                             .can_batch = true};
    if (padded) {
      options.padding = std::make_shared<const Padding>(
          read_padding({{"values", "1e30"}, {"mask", "0"}}, runtime_.info().signature, "padding"));
    }
    std::vector<std::unique_ptr<Replica>> replicas;
    replicas.push_back(std::make_unique<SessionReplica>(runtime_));
    return std::make_unique<Scheduler>(std::move(replicas), options);
  }

  const Runtime runtime_{test_model("masked_sum")};
};

TEST_F(PaddedBatch, GivesEachWhatItWouldHaveGotAlone) {
  const std::vector<NamedValues> requests{inputs(1, 3), inputs(2, 9), inputs(1, 1)};
  const auto shared = scheduler(true);
  std::vector<std::future<InferAnswer>> futures;
  for (const NamedValues& request : requests) futures.push_back(send(*shared, request));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const InferAnswer answer = futures[i].get();
    ASSERT_FALSE(answer.error) << answer.error->message();
    EXPECT_EQ(answer.times.batch_requests, 3U);
    EXPECT_EQ(answer.times.batch_rows, 4);
    expect_equal(answer.outputs, runtime_.infer(requests[i]));
  }
  EXPECT_EQ(shared->counts().runs, 1U);
}

TEST_F(PaddedBatch, IsBoundByItsElements) {
  const auto shared = scheduler(true);
  auto first = send(*shared, inputs(1, 12));
  auto too_long = send(*shared, inputs(1, 30));
  auto second = send(*shared, inputs(1, 5));
  auto third = send(*shared, inputs(1, 12));
  // Three rows of 12 are all that may be: together with the one of 30 they would be 120.
  for (auto* future : {&first, &second, &third}) EXPECT_EQ(future->get().times.batch_requests, 3U);
  EXPECT_EQ(too_long.get().times.batch_requests, 1U);
  auto alone = send(*shared, inputs(1, 40));
  expect_equal(alone.get().outputs, runtime_.infer(inputs(1, 40)));
}

TEST_F(PaddedBatch, IsNoneWhereSizesOfOneNameDisagree) {
  const auto shared = scheduler(true);
  NamedValues broadcast = inputs(1, 3);
  broadcast[1].second = floats({1, 1}, {1});
  auto one = send(*shared, inputs(1, 3));
  auto other = send(*shared, broadcast);
  auto rest = send(*shared, inputs(3, 2));
  const InferAnswer answer = other.get();
  EXPECT_EQ(answer.times.batch_requests, 1U);
  expect_equal(answer.outputs, runtime_.infer(broadcast));
  EXPECT_EQ(one.get().times.batch_requests, 2U);
  EXPECT_EQ(rest.get().times.batch_requests, 2U);
}

TEST_F(PaddedBatch, IsNotMadeUnasked) {
  const auto shared = scheduler(false);
  auto three = send(*shared, inputs(3, 3));
  auto nine = send(*shared, inputs(4, 9));  // full by itself, and behind one that waits
  auto last = send(*shared, inputs(1, 3));
  EXPECT_EQ(three.get().times.batch_requests, 2U);
  EXPECT_EQ(last.get().times.batch_requests, 2U);
  EXPECT_EQ(nine.get().times.batch_requests, 1U);
}

}  // namespace
}  // namespace gpux::runtime
