#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "kernels/linear.h"
#include "plugin/fused_provider.h"
#include "provider/context.h"

namespace gpux_cpu::encoder {

inline constexpr const char* provider_name = "GpuxEncoderExecutionProvider";

/// Claims a whole text encoder as one node.
class EncoderProvider : public FusedProvider {
 public:
  /// Without a precision: float32, or that of a context. `threads`: of a run.
  EncoderProvider(std::optional<Precision> precision, ContextOptions context, std::size_t threads,
                  const OrtLogger* logger);

 private:
  void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override;
  void claim_contexts(const std::vector<Ort::ConstNode>& nodes, OrtEpGraphSupportInfo* support);
  std::unique_ptr<FusedNode> fuse(const OrtGraph* graph, const OrtNode* fused_node, Ort::Node& context) const override;

  std::optional<Precision> precision_;
  ContextOptions context_;
  std::size_t threads_;
  std::set<std::string> only_read_by_caller_;  // hidden states that no other node takes
};

}  // namespace gpux_cpu::encoder
