#pragma once

#include <cstddef>
#include <memory>

#include <onnxruntime_cxx_api.h>

#include "plugin/fused_provider.h"
#include "recognizer/recognized_decoder.h"

namespace gpux_cpu::decoder {

/// Claims a whole decoder as one node.
class DecoderProvider : public FusedProvider {
 public:
  /// `threads`: of a run.
  DecoderProvider(DecoderPrecision precision, std::size_t threads, const OrtLogger* logger);

 private:
  void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override;
  std::unique_ptr<FusedNode> fuse(const OrtGraph* graph, const OrtNode* fused_node, Ort::Node& context) const override;

  DecoderPrecision precision_;
  std::size_t threads_;
};

}  // namespace gpux_cpu::decoder
