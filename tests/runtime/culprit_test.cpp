#include <optional>
#include <stdexcept>

#include <gtest/gtest.h>

#include "runtime/loading/load_plan.h"

namespace gpux::runtime {
namespace {

Candidate candidate(const char* id, const char* ort_name) {
  Candidate made;
  made.id = id;
  made.append.name = ort_name;
  return made;
}

TEST(Culprit, IsTheProviderThatTheErrorNames) {
  const std::vector<Candidate> candidates{candidate("webgpu", "WebGpuExecutionProvider"),
                                          candidate("mine", "GpuxExampleExecutionProvider"),
                                          candidate("openvino", "OpenVINO")};

  struct Case {
    const char* message;
    std::optional<std::size_t> culprit;
  };

  for (const Case& one : {
           Case{"Error creating execution provider: GpuxExampleExecutionProvider was set to fail", 1},
           Case{"the library of mine has no device", 1},
           Case{"[OpenVINO] NPU is not available", 2},
           Case{"openvino_ep: Compilation failed", 2},
           Case{"OpenVINOExecutionProvider: no", 2},
           Case{"WEBGPU device lost", 0},
           Case{"something failed", std::nullopt},
           Case{"nothing to determine, openvinous", std::nullopt},
           Case{"WebGpuExecutionProvider after OpenVINO", std::nullopt},
           Case{"Load model from /mine/openvino.onnx failed", std::nullopt},
           Case{"Load model from /mine/openvino.onnx failed: webgpu", 0},
           Case{"", std::nullopt},
       }) {
    EXPECT_EQ(named_in(Error(ErrorCode::internal, one.message), candidates, "/mine/openvino.onnx"), one.culprit)
        << one.message;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(named_in(ort::AppendError(i, "WebGpuExecutionProvider is named, too"), candidates, {}), i);
  }
}

TEST(Culprit, IsTheOneWithoutWhichTheModelLoads) {
  for (const std::size_t bad : {0U, 1U, 2U}) {
    std::vector<std::size_t> left_out;
    const std::size_t culprit = culprit_by_trial(3, [&](std::size_t index) {
      left_out.push_back(index);
      return index == bad;
    });
    EXPECT_EQ(culprit, bad);
    EXPECT_EQ(left_out.size(), 3 - bad) << "the last is tried first, and nothing after the culprit";
  }
  EXPECT_EQ(culprit_by_trial(3, [](std::size_t) { return false; }), 0U);
  EXPECT_EQ(culprit_by_trial(3, [](std::size_t) { return true; }), 2U);
  EXPECT_EQ(culprit_by_trial(1, [](std::size_t) -> bool { throw std::logic_error("there is nothing to try"); }), 0U);
}

}  // namespace
}  // namespace gpux::runtime
