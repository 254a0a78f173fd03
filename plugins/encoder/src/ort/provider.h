#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "kernels/linear.h"
#include "ort/context.h"
#include "ort/named_runs.h"

namespace gpux_encoder {

inline constexpr const char* provider_name = "GpuxEncoderExecutionProvider";

/// One session's provider: claims a whole text encoder as one node and leaves the rest to others.
class Provider : public OrtEp {
 public:
  /// Without a precision: float32, or that of a context. `threads`: of a run.
  Provider(std::optional<Precision> precision, ContextOptions context, std::size_t threads, const OrtLogger* logger);

 private:
  static const char* ORT_API_CALL get_name(const OrtEp* self) noexcept;
  static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph,
                                                OrtEpGraphSupportInfo* support) noexcept;
  static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                         std::size_t count, OrtNodeComputeInfo** compute_infos,
                                         OrtNode** context_nodes) noexcept;
  static void ORT_API_CALL release_compute_infos(OrtEp* self, OrtNodeComputeInfo** compute_infos,
                                                 std::size_t count) noexcept;
  static OrtStatus* ORT_API_CALL on_run_start(OrtEp* self, const OrtRunOptions* options) noexcept;
  static OrtStatus* ORT_API_CALL on_run_end(OrtEp* self, const OrtRunOptions* options, bool sync_stream) noexcept;
  static OrtStatus* ORT_API_CALL set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                                     std::size_t count) noexcept;

  OrtNodeComputeInfo* fuse(const OrtGraph* graph, const OrtNode* fused_node, OrtNode** context_node) const;
  void claim_contexts(const std::vector<Ort::ConstNode>& nodes, OrtEpGraphSupportInfo* support);
  void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support);

  std::optional<Precision> precision_;
  ContextOptions context_;
  std::size_t threads_;
  Ort::Logger logger_;
  NamedRuns runs_;
  std::set<std::string> only_read_by_caller_;  // hidden states that no other node takes
};

}  // namespace gpux_encoder
