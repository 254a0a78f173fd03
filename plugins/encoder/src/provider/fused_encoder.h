#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "encoder/encoder.h"
#include "encoder/packed_encoder.h"
#include "plugin/fused_node.h"

namespace gpux_cpu::encoder {

/// The names of an encoder's inputs and outputs, "" for one that it does not have.
struct EncoderValues {
  std::string input_ids, attention_mask, token_type_ids, position_ids;
  std::string vectors, hidden_states;

  [[nodiscard]] std::vector<std::string> inputs() const {
    return without_empty({input_ids, attention_mask, token_type_ids, position_ids});
  }

  [[nodiscard]] std::vector<std::string> outputs() const { return without_empty({vectors, hidden_states}); }

 private:
  static std::vector<std::string> without_empty(std::vector<std::string> names) {
    std::erase(names, "");
    return names;
  }
};

/// The inputs and outputs of a context's node. Throws Ort::Exception where they do not fit the encoder.
EncoderValues values_of(const Ort::ConstNode& node, const PackedEncoder& encoder);

class FusedEncoder : public FusedNode {
 public:
  /// `only_read_by_caller`: values that no node takes. `threads`: of a run.
  FusedEncoder(std::shared_ptr<const Encoder> encoder, const EncoderValues& values, const OrtNode* fused_node,
               const std::set<std::string>& only_read_by_caller, std::size_t threads);

 private:
  void compute(OrtKernelContext* context) const override;

  std::shared_ptr<const Encoder> encoder_;
  std::size_t input_ids_ = 0;
  std::optional<std::size_t> attention_mask_, token_type_ids_, position_ids_, vectors_, hidden_states_;
  std::string optional_hidden_states_;  // their name, if no node reads them
  const std::size_t threads_;
};

}  // namespace gpux_cpu::encoder
