#include <gtest/gtest.h>

#include "runtime/load_plan.h"

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
    std::size_t culprit;
  };

  for (const Case& one : {
           Case{"Error creating execution provider: GpuxExampleExecutionProvider was told to fail", 1},
           Case{"the library of mine has no device", 1},
           Case{"[OpenVINO] NPU is not available", 2},
           Case{"openvino_ep: Compilation failed", 2},
           Case{"WEBGPU device lost", 0},
           Case{"something failed", 0},
       }) {
    EXPECT_EQ(culprit_of(Error(ErrorCode::internal, one.message), candidates), one.culprit) << one.message;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(culprit_of(ort::AppendError(i, "WebGpuExecutionProvider is named, too"), candidates), i);
  }
}

}  // namespace
}  // namespace gpux::runtime
