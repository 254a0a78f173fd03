// Which errors mean that a process can no longer use its device.
#include "ort/lost_device.h"

#include <gtest/gtest.h>

#include "provider/placement.h"

namespace gpux::ort {
namespace {

TEST(LostDevice, IsNamedByTheErrorsThatStay) {
  for (const char* message : {
           "CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=x ; expr=cudaMemcpyAsync",
           "CUDA error cudaErrorLaunchFailure:unspecified launch failure",
           "CUDA error: device-side assert triggered",
           "uncorrectable ECC error encountered",
           "CUDA failure 719",
           "CUDA failure 214: x",
           "HIP failure 700: x",
           "CUDA_ERROR_ILLEGAL_ADDRESS",
           "hipErrorLaunchFailure",
           "Failed to map a buffer: [Device] is lost.",
           "WebGPU device lost (1): x",
           "A valid external Instance reference no longer exists. The device was lost",
           "vkQueueSubmit failed with VK_ERROR_DEVICE_LOST",
           "GpuxExampleExecutionProvider was set to fail at: device-lost:3: the device is lost",
       }) {
    EXPECT_TRUE(names_lost_device(message)) << message;
  }
}

TEST(LostDevice, IsNotNamedByOthers) {
  for (const char* message : {
           "",
           "CUDA failure 2: out of memory",
           "CUDA failure 7000: x",
           "CUDA failure 70: x",
           "CUDA failure ",
           "CUDNN failure 700",
           "CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED",
           "all CUDA-capable devices are busy or unavailable",
           "out of memory: the device has no room for 12 bytes",
           "the run was stopped",
           "input 'x' of 700 elements",
       }) {
    EXPECT_FALSE(names_lost_device(message)) << message;
  }
}

// The words of others than providers may be those of a client or of a model.
TEST(LostDevice, IsSaidByProvidersAlone) {
  struct Row {
    ErrorCode code;
    const char* message;
    bool is_lost;
  };

  for (const Row& row : {
           Row{ErrorCode::internal, "CUDA failure 700: an illegal memory access was encountered ; GPU=0", true},
           Row{ErrorCode::provider_unavailable, "a node of Example: the device is lost", true},
           Row{ErrorCode::internal, "MatMul node 'a': it wasn't done: WebGPU device lost (1): x", true},
           Row{ErrorCode::internal, "the provider's error: CUDA failure 719: it can't go on", true},
           Row{ErrorCode::internal, "Reshape node 'device lost': the input tensor cannot be reshaped", false},
           Row{ErrorCode::internal, "Add node '': x. Expand node 'a CUDA failure 700': y", false},
           Row{ErrorCode::invalid_input, "there is no input device lost", false},
           Row{ErrorCode::invalid_input, "CUDA failure 700", false},
           Row{ErrorCode::resource_exhausted, "CUDA failure 2: out of memory; device lost", false},
           Row{ErrorCode::interrupted, "device lost", false},
           Row{ErrorCode::internal, "an error", false},
       }) {
    EXPECT_EQ(reports_lost_device(row.code, row.message), row.is_lost) << row.message;
  }
}

TEST(LostDevice, NeedsADevice) {
  using Outcome = ProviderAttempt::Outcome;
  Verdict verdict;
  verdict.tried = {{.id = "cuda", .outcome = Outcome::failed}, {.id = "cpu", .outcome = Outcome::active}};
  EXPECT_FALSE(provider::can_lose_device(verdict));
  verdict.tried.front().outcome = Outcome::active;
  EXPECT_TRUE(provider::can_lose_device(verdict));
}

}  // namespace
}  // namespace gpux::ort
