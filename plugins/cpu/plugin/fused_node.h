#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "kernels/team.h"

namespace gpux_cpu {

/// Callbacks of a fused node, which computes a whole model. Owned by ONNX Runtime.
class FusedNode : public OrtNodeComputeInfo {
 public:
  FusedNode();
  virtual ~FusedNode() = default;

  FusedNode(const FusedNode&) = delete;
  FusedNode& operator=(const FusedNode&) = delete;

 private:
  static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* context,
                                              void** state) noexcept;
  static OrtStatus* ORT_API_CALL compute_callback(OrtNodeComputeInfo* self, void* state,
                                                  OrtKernelContext* context) noexcept;
  static void ORT_API_CALL release_state(OrtNodeComputeInfo* self, void* state) noexcept;

  /// Any thread may call, also at the same time. What it throws becomes the run's error.
  virtual void compute(OrtKernelContext* context) const = 0;
};

/// A fused node has its values once each, in the order of first use: they are found by name. Throws Ort::Exception.
std::size_t index_of(const std::string& name, const std::vector<Ort::ConstValueInfo>& values);

/// The elements of an int64 tensor in place, those of an int32 tensor converted into `scratch`.
const std::int64_t* as_int64(const Ort::ConstValue& value, std::vector<std::int64_t>& scratch);

/// ONNX Runtime's own threads, for the run of `context`.
ParallelFor session_threads(const OrtKernelContext* context);

}  // namespace gpux_cpu
