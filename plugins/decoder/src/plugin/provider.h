#pragma once

#include <cstddef>

#include <onnxruntime_cxx_api.h>

#include "ort/named_runs.h"
#include "recognition/recognized_decoder.h"

namespace gpux_decoder {

/// One session's provider: claims a whole decoder as one node and leaves the rest to others.
class Provider : public OrtEp {
 public:
  /// `threads`: of a run.
  Provider(DecoderPrecision precision, std::size_t threads, const OrtLogger* logger);

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

  void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  OrtNodeComputeInfo* fuse(const OrtGraph* graph, const OrtNode* fused_node) const;

  DecoderPrecision precision_;
  std::size_t threads_;
  Ort::Logger logger_;
  gpux_encoder::NamedRuns runs_;
};

}  // namespace gpux_decoder
