#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <semaphore>
#include <string>

#include <onnxruntime_cxx_api.h>

#include "failure.h"

namespace gpux_example {

inline constexpr const char* provider_name = "GpuxExampleExecutionProvider";

/// One session's provider: fuses each Mul that it can compute into a node of its own and leaves the rest to others.
/// ONNX Runtime calls compute() from several threads at once.
class Provider : public OrtEp {
 public:
  /// `release_file`: what hangs ends well, and what is broken works, once a file of this name exists; may be empty.
  Provider(Failure failure, std::string release_file, std::size_t device);

  /// One computation of a fused node, with the inputs' positions among the node's; throws Ort::Exception.
  void compute(OrtKernelContext* context, std::size_t left_input, std::size_t right_input);

 private:
  static const char* ORT_API_CALL get_name(const OrtEp* self) noexcept;
  static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph,
                                                OrtEpGraphSupportInfo* support) noexcept;
  static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                         std::size_t count, OrtNodeComputeInfo** compute_infos,
                                         OrtNode** context_nodes) noexcept;
  static void ORT_API_CALL release_compute_infos(OrtEp* self, OrtNodeComputeInfo** compute_infos,
                                                 std::size_t count) noexcept;
  static OrtStatus* ORT_API_CALL create_allocator(OrtEp* self, const OrtMemoryInfo* memory_info,
                                                  OrtAllocator** allocator) noexcept;
  static OrtStatus* ORT_API_CALL on_run_start(OrtEp* self, const OrtRunOptions* options) noexcept;
  static OrtStatus* ORT_API_CALL on_run_end(OrtEp* self, const OrtRunOptions* options, bool sync_stream) noexcept;
  static OrtStatus* ORT_API_CALL set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                                     std::size_t count) noexcept;

  void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) const;
  void misbehave();
  [[nodiscard]] bool is_released() const;
  void wait_until_released() const;
  void wait_for_milliseconds(std::uint64_t milliseconds) const;
  void stop_if_cancelled() const;

  Failure failure_;
  std::string release_file_;
  std::size_t device_;
  std::binary_semaphore run_{1};  // whose runs are to be one after the other
  std::atomic<std::uint64_t> computations_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace gpux_example
