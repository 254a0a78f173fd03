#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "decoder/decoder.h"
#include "plugin/fused_node.h"
#include "recognizer/recognized_decoder.h"

namespace gpux_cpu::decoder {

/// The names of a decoder's inputs and outputs.
struct DecoderValues {
  std::string input_ids, attention_mask, logits;
  std::vector<CacheNames> caches;
};

class FusedDecoder : public FusedNode {
 public:
  /// `threads`: of a run.
  FusedDecoder(std::shared_ptr<const Decoder> decoder, const DecoderValues& values, const OrtNode* fused_node,
               std::size_t threads);

 private:
  struct CacheIndices {
    std::size_t past_key, past_value, present_key, present_value;
  };

  void compute(OrtKernelContext* context) const override;
  void set_caches(const Ort::KernelContext& kernel, DecoderBatch& batch) const;

  std::shared_ptr<const Decoder> decoder_;
  std::size_t input_ids_ = 0, attention_mask_ = 0, logits_ = 0;
  std::vector<CacheIndices> caches_;
  const std::size_t threads_;
};

}  // namespace gpux_cpu::decoder
