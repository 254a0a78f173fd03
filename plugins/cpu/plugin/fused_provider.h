#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <onnxruntime_cxx_api.h>

#include "plugin/fused_node.h"
#include "plugin/named_runs.h"

namespace gpux_cpu {

/// One session's provider: claims whole models, each as one node, and leaves the rest to others. Which nodes are a
/// model, and what computes it, is of the class that derives from this.
class FusedProvider : public OrtEp {
 public:
  explicit FusedProvider(const OrtLogger* logger);
  virtual ~FusedProvider() = default;

  FusedProvider(const FusedProvider&) = delete;
  FusedProvider& operator=(const FusedProvider&) = delete;

 protected:
  /// Has ONNX Runtime make one node of these. `drop_constants`: it need not keep the constants that they read, as
  /// fuse() copies them.
  static void claim_nodes(OrtEpGraphSupportInfo* support, std::span<const OrtNode* const> nodes, bool drop_constants);

  /// Writes to ONNX Runtime's log why nothing is claimed.
  void log_unclaimed(const std::string& reason) noexcept;

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

  /// Calls claim_nodes() for each model in the graph.
  virtual void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) = 0;

  /// The node of a model whose nodes are `graph`. `context` becomes the EPContext node if the session asks for one.
  virtual std::unique_ptr<FusedNode> fuse(const OrtGraph* graph, const OrtNode* fused_node,
                                          Ort::Node& context) const = 0;

  Ort::Logger logger_;
  NamedRuns runs_;
};

}  // namespace gpux_cpu
