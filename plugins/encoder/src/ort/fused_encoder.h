#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "encoder/encoder.h"
#include "encoder/packed_encoder.h"

namespace gpux_encoder {

/// The values by which an encoder is reached, "" for one that it has not.
struct Values {
  std::string ids, mask, types;  ///< taken
  std::string vectors, hidden;   ///< given

  [[nodiscard]] std::vector<std::string> inputs() const { return those_of({ids, mask, types}); }

  [[nodiscard]] std::vector<std::string> outputs() const { return those_of({vectors, hidden}); }

 private:
  static std::vector<std::string> those_of(std::vector<std::string> names) {
    std::erase(names, "");
    return names;
  }
};

/// The inputs and outputs of a context's node. Throws Ort::Exception where they do not fit the encoder.
Values values_of(const Ort::ConstNode& node, const PackedEncoder& encoder);

/// What ONNX Runtime keeps of one encoder. Computes for several threads at once.
class FusedEncoder : public OrtNodeComputeInfo {
 public:
  /// `only_read_outside`: values that no node takes.
  FusedEncoder(std::shared_ptr<const Encoder> encoder, const Values& values, const OrtNode* fused_node,
               const std::set<std::string>& only_read_outside);

 private:
  static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* context,
                                              void** state) noexcept;
  static OrtStatus* ORT_API_CALL compute_callback(OrtNodeComputeInfo* self, void* state,
                                                  OrtKernelContext* context) noexcept;
  static void ORT_API_CALL release_state(OrtNodeComputeInfo* self, void* state) noexcept;

  void compute(OrtKernelContext* context) const;

  std::shared_ptr<const Encoder> encoder_;
  std::size_t ids_ = 0;
  std::optional<std::size_t> mask_, types_, vectors_, hidden_;
  std::string optional_hidden_;  // their name, where nothing but a caller may read them
  const std::size_t processors_;
};

}  // namespace gpux_encoder
