#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>

#include "base/files.h"
#include "base/no_threads.h"
#include "cpu_runtime.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class Infer : public CpuRuntime {};

Error failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing failed"};
}

TEST_F(Infer, ChecksNamesTypesRanksAndSizesBeforeTheRun) {
  struct Case {
    const char* model;
    NamedValues inputs;
    const char* words;
  };

  const Tensor row = floats({1, 3}, {1, 2, 3});
  const Case cases[] = {
      {"add", {}, "input 'x' (float32[batch, 3]) is missing"},
      {"add", {{"y", row}}, "there is no input 'y'"},
      {"add", {{"X1", row}, {"x", row}}, "there is no input 'X1', did you mean 'x'?"},
      {"add", {{"x", row}, {"x", row}}, "input 'x' is given twice"},
      {"add", {{"x", floats({3}, {1, 2, 3})}}, "input 'x' takes float32[batch, 3], got float32[3]"},
      {"add", {{"x", floats({1, 2}, {1, 2})}}, "got float32[1, 2]"},
      {"add", {{"x", tensor<double>({1, 3}, {1, 2, 3})}}, "got float64[1, 3]"},
      {"add", {{"x", Sequence{}}}, "input 'x' takes a tensor"},
      {"add", {{"x", std::monostate{}}}, "input 'x' takes a tensor"},
      {"sequence_input", {{"x", row}}, "input 'x' takes a sequence"},
      {"map_input", {{"x", row}}, "input 'x' takes a map"},
      {"scale_default", {{"scale", floats({1}, {2})}}, "input 'x' (float32[n]) is missing"},
      {"scale_default", {{"x", floats({1}, {2})}, {"scale", floats({2}, {2, 2})}}, "got float32[2]"},
      // Before IR 4 an initializer is no input.
      {"scale_ir3", {{"x", floats({1}, {2})}, {"scale", floats({1}, {2})}}, "there is no input 'scale'; inputs: x"},
      {"divide", {{"a", floats({2}, {1, 2})}, {"b", floats({3}, {1, 2, 3})}}, ""},
  };
  for (const Case& c : cases) {
    const Runtime runtime(test_model(c.model));
    const Error error = failure_of([&] { (void)runtime.infer(c.inputs); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << c.model << ": " << error.message();
    EXPECT_THAT(error.message(), HasSubstr(c.words)) << c.model;
  }
}

TEST_F(Infer, SaysEverythingThatIsWrongAtOnce) {
  const Runtime runtime(test_model("divide"));
  const Error error = failure_of([&] {
    (void)runtime.infer({{"a", tensor<double>({1}, {1})}, {"c", floats({1}, {1})}});
  });
  EXPECT_THAT(error.message(), HasSubstr("input 'a' takes float32[n], got float64[1]"));
  EXPECT_THAT(error.message(), HasSubstr("there is no input 'c'"));
  EXPECT_THAT(error.message(), HasSubstr("input 'b' (float32[n]) is missing"));
}

TEST_F(Infer, GivesOnlyTheOutputsAskedFor) {
  const Runtime runtime(test_model("add"));
  const Tensor row = floats({1, 3}, {1, 2, 3});
  EXPECT_EQ(runtime.infer(row, {.timeout = {}, .outputs = {"y"}}).size(), 1U);
  const Error error = failure_of([&] { (void)runtime.infer(row, {.timeout = {}, .outputs = {"z"}}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_EQ(error.message(), "there is no output 'z'; outputs: y");
}

TEST_F(Infer, FailsWhereTheModelFailsAndGoesOnAfterwards) {
  const Runtime runtime(test_model("gather"));
  const Error error = failure_of([&] { (void)runtime.infer(tensor<std::int64_t>({1}, {7})); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
  EXPECT_THAT(error.message(), HasSubstr("7"));
  EXPECT_THAT(runtime.infer(tensor<std::int64_t>({1}, {1}))[0].second.tensor()->as<float>(), ElementsAre(20));
}

NamedValues slow_inputs(std::int64_t iterations) {
  return {{"x", Tensor::allocate(ElementType::float32, {16, 16})},
          {"iterations", tensor<std::int64_t>({}, {iterations})}};
}

TEST_F(Infer, ReturnsAtTheDeadlineAndStopsTheRun) {
  LoadOptions options;
  options.intra_threads = 1;
  const Runtime runtime(test_model("slow"), options);
  // Half an hour's work: neither the caller nor the next run waits for it.
  const Error error =
      failure_of([&] { (void)runtime.infer(slow_inputs(1'000'000'000), {.timeout = 100ms, .outputs = {}}); });
  EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded) << error.message();
  EXPECT_THAT(error.message(), HasSubstr("no answer within 0.1 s"));
  EXPECT_EQ(runtime.infer(slow_inputs(1), {.timeout = 60s, .outputs = {}}).size(), 1U)
      << "the run was signalled to stop";
  EXPECT_EQ(runtime.infer(slow_inputs(1)).size(), 1U);
}

TEST_F(Infer, FailsWhereNoThreadCanBeStartedForItsDeadline) {
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = 1;
  const Runtime runtime(test_model("add"), options);
  const NamedValues row{{"x", floats({1, 3}, {1, 2, 3})}};
  {
    const test::NoThreads none;
    const Error error = failure_of([&] { (void)runtime.infer(row, {.timeout = 60s, .outputs = {}}); });
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted) << error.message();
  }
  EXPECT_EQ(runtime.infer(row, {.timeout = 60s, .outputs = {}}).size(), 1U);
}

TEST_F(Infer, EndsWhenAnotherThreadStopsIt) {
  LoadOptions options;
  options.intra_threads = 1;
  const Runtime runtime(test_model("slow"), options);
  for (const std::optional<std::chrono::milliseconds> timeout : {std::optional<std::chrono::milliseconds>(), {1h}}) {
    std::stop_source stop;
    const std::jthread other([&] {
      std::this_thread::sleep_for(50ms);
      stop.request_stop();
    });
    const InferOptions with_stop{.timeout = timeout, .outputs = {}, .stop = stop.get_token()};
    EXPECT_EQ(failure_of([&] { (void)runtime.infer(slow_inputs(1'000'000'000), with_stop); }).code(),
              ErrorCode::interrupted);
    EXPECT_EQ(failure_of([&] { (void)runtime.infer(slow_inputs(1'000'000'000), with_stop); }).code(),
              ErrorCode::interrupted)
        << "stopped before it began";
    EXPECT_EQ(runtime.infer(slow_inputs(1)).size(), 1U);
  }
}

TEST_F(Infer, KeepsToTheDeadlineWhereItIsEarlyEnough) {
  const Runtime runtime(test_model("add"));
  // Memory of the caller's own may go as soon as the call is back.
  const std::vector<float> values{1, 2, 3};
  const Tensor borrowed = Tensor::borrow(ElementType::float32, {1, 3}, std::as_bytes(std::span(values)));
  EXPECT_THAT(runtime.infer(borrowed, {.timeout = 10s, .outputs = {}})[0].second.tensor()->as<float>(),
              ElementsAre(2, 4, 6));
  const Error error = failure_of([&] { (void)runtime.infer(floats({1}, {1}), {.timeout = 10s, .outputs = {}}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
}

TEST_F(Infer, RunsOnManyThreadsAtOnce) {
  const Runtime runtime(test_model("add"));
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 200; ++i) {
          const auto base = static_cast<float>(thread * 1000 + i);
          InferOptions options;
          if (i % 10 == 0) options.timeout = 60s;
          const NamedValues outputs = runtime.infer(floats({1, 3}, {base, base, base}), options);
          const auto values = outputs[0].second.tensor()->as<float>();
          if (values[0] != base + 1 || values[1] != base + 2 || values[2] != base + 3) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Infer, ResultsOutliveTheRuntime) {
  NamedValues outputs;
  {
    Runtime first(test_model("add"));
    Runtime runtime = std::move(first);
    first = Runtime(test_model("scalar"));
    outputs = runtime.infer(floats({1, 3}, {1, 2, 3}));
    EXPECT_THAT(first.infer(floats({}, {3}))[0].second.tensor()->as<float>(), ElementsAre(-3));
    runtime = std::move(first);
    EXPECT_EQ(runtime.info().signature.inputs[0].name, "x");
  }
  EXPECT_THAT(outputs[0].second.tensor()->as<float>(), ElementsAre(2, 4, 6));
}

class Load : public CpuRuntime {
 protected:
  void SetUp() override {
    CpuRuntime::SetUp();
    folder_ = std::filesystem::path(testing::TempDir()) / ("gpux_load_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
};

TEST_F(Load, WritesTheProfileWhereItWasAskedFor) {
  LoadOptions options;
  options.profile = folder_ / "profile.json";
  {
    Runtime runtime(test_model("add"), options);
    (void)runtime.infer(floats({1, 3}, {1, 2, 3}));
    runtime.finish_profile();
    EXPECT_THAT(read_file(options.profile), HasSubstr("\"dur\""));
    std::filesystem::remove(options.profile);
  }
  EXPECT_EQ(files(), 0U);
  { const Runtime runtime(test_model("add"), options); }
  EXPECT_TRUE(std::filesystem::exists(options.profile));
  EXPECT_EQ(files(), 1U);
}

TEST_F(Load, LeavesNoProfileWhereItFails) {
  LoadOptions options;
  options.profile = folder_ / "profile.json";
  EXPECT_EQ(failure_of([&] { const Runtime runtime(test_model("opset_too_new"), options); }).code(),
            ErrorCode::invalid_model);
  EXPECT_EQ(files(), 0U);
}

TEST_F(Load, RefusesWhatItCannotUse) {
  struct Case {
    std::function<void(LoadOptions&)> set;
    ErrorCode code;
    const char* words;
  };

  const Case cases[] = {
      {[](LoadOptions& o) { o.provider = "cudda"; }, ErrorCode::usage,
       "unknown provider 'cudda'; did you mean 'cuda'?"},
      {[](LoadOptions& o) { o.provider = "coreml,"; }, ErrorCode::provider_unavailable,
       "nothing of 'coreml,' can be used; coreml: runs on macos only; add cpu to the list to fall back"},
      {[](LoadOptions& o) { o.provider = "coreml", o.strict = Strictness::provider; }, ErrorCode::provider_unavailable,
       "strict: coreml was requested (default): runs on macos only"},
      {[](LoadOptions& o) { o.provider = "npu", o.strict = Strictness::provider; }, ErrorCode::provider_unavailable,
       "strict: no npu can be used on this machine"},
      {[](LoadOptions& o) {
         o.provider_options = {{"cuda", {{"gpu_mem_limt", "1"}}, "gpux.yml:7"}};
       },
       ErrorCode::usage,
       "gpux.yml:7: provider cuda: option 'gpu_mem_limt' is not known, did you mean 'gpu_mem_limit'?"},
      {[](LoadOptions& o) {
         o.provider_options = {{"quantum", {}, "gpux.yml:8"}};
       },
       ErrorCode::usage, "gpux.yml:8: unknown provider 'quantum'"},
      {[](LoadOptions& o) {
         o.provider_libraries = {{"mine", "/nowhere/lib.so"}};
       },
       ErrorCode::not_found, "provider library mine: '/nowhere/lib.so' does not exist"},
      {[](LoadOptions& o) { o.precision = "fp16", o.strict = Strictness::provider; }, ErrorCode::provider_unavailable,
       "strict: cpu: precision has no counterpart there and is not enforced"},
  };
  for (const Case& c : cases) {
    LoadOptions options;
    c.set(options);
    const Error error = failure_of([&] { const Runtime runtime(test_model("add"), options); });
    EXPECT_EQ(error.code(), c.code) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(c.words));
  }
}

TEST_F(Load, SaysWhatBecameOfARequestThatIsNotHere) {
  LoadOptions options;
  options.provider = "rocm";
  options.provider_from = "--provider";
  const Runtime runtime(test_model("add"), options);
  const Verdict& verdict = runtime.verdict();
  EXPECT_EQ(verdict.requested, "rocm");
  EXPECT_TRUE(verdict.fell_back);
  EXPECT_EQ(verdict.active, std::vector<std::string>{"cpu"});
  EXPECT_THAT(to_line(verdict), HasSubstr("'rocm' means migraphx"));
  EXPECT_EQ(verdict.tried[0].id, "migraphx");
  EXPECT_EQ(verdict.tried[0].outcome, ProviderAttempt::Outcome::unavailable);
  EXPECT_FALSE(verdict.tried[0].reason.empty());
}

TEST_F(Load, AcceptsStrictCpu) {
  LoadOptions options;
  options.provider = "cpu";
  options.strict = Strictness::nodes;
  EXPECT_FALSE(Runtime(test_model("split"), options).verdict().fell_back);
}

TEST_F(Load, PlacesEveryNode) {
  const Runtime runtime(test_model("split"));
  EXPECT_EQ(runtime.placement().size(), 8U);
  EXPECT_EQ(runtime.verdict().node_count, 8U);
  for (const Runtime::PlacedNode& node : runtime.placement()) EXPECT_EQ(node.provider, "cpu");
}

TEST_F(Load, WritesTheOptimizedModel) {
  LoadOptions options;
  options.optimized_model = folder_ / "optimized.onnx";
  { const Runtime runtime(test_model("matmul_chain"), options); }
  LoadOptions plain;
  const Runtime again(options.optimized_model, plain);
  const std::vector<float> ones(16, 1);
  EXPECT_NEAR(again.infer(Tensor::of<float>({1, 16}, ones))[0].second.tensor()->as<float>()[0], 0.29174107F, 1e-5F);
}

TEST_F(Load, Benchmarks) {
  const Runtime runtime(test_model("add"));
  const BenchmarkResult result = runtime.benchmark(synthetic_inputs(runtime.info().signature),
                                                   {.runs = 20, .warmup_runs = 2, .seconds = {}, .progress = {}});
  EXPECT_EQ(result.runs, 20U);
  EXPECT_GT(result.min_ms, 0);
  EXPECT_LE(result.min_ms, result.median_ms);
  EXPECT_LE(result.median_ms, result.p99_ms);
  EXPECT_LE(result.p99_ms, result.max_ms);
  EXPECT_GT(result.peak_memory_bytes, 1U << 20);
  const auto start = std::chrono::steady_clock::now();
  const BenchmarkResult timed = runtime.benchmark(synthetic_inputs(runtime.info().signature),
                                                  {.runs = 1, .warmup_runs = 1, .seconds = 0.05, .progress = {}});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50)) << timed.runs << " runs";
  EXPECT_EQ(failure_of([&] {
              (void)runtime.benchmark({}, {.runs = 0, .warmup_runs = 0, .seconds = {}, .progress = {}});
            }).code(),
            ErrorCode::usage);
}

}  // namespace
}  // namespace gpux
