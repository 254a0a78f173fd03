#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "encoder/attention.h"
#include "encoder/weights.h"
#include "kernels/kernels.h"

namespace gpux_cpu::encoder {

/// Whether the attention of a layer is in bfloat16: if its projections are rounded anyway.
bool attends_in_bfloat16(const Weights& weights, const Layer& layer) noexcept;

/// The relative embeddings of one layer as its attention takes them; none for a layer that has none. Points into the
/// weights.
class PackedRelativeEmbeddings {
 public:
  PackedRelativeEmbeddings(const Weights& weights, const Layer& layer, const Kernels& kernels);

  /// float if the attention is in float32, std::uint16_t if it is in bfloat16.
  template <typename Element>
  [[nodiscard]] RelativeEmbeddings<Element> of_head(std::size_t head) const noexcept {
    RelativeEmbeddings<Element> found;
    found.buckets = buckets_;
    if constexpr (std::is_same_v<Element, float>) {
      if (!float_keys_.empty()) found.packed_keys = float_keys_[head].data();
      if (float_queries_ != nullptr) found.query_rows = float_queries_ + head * query_elements_;
    } else {
      if (!bfloat16_keys_.empty()) found.packed_keys = bfloat16_keys_[head].data();
      if (!bfloat16_queries_.empty()) found.query_rows = bfloat16_queries_.data() + head * query_elements_;
    }
    return found;
  }

 private:
  const std::uint32_t* buckets_;
  std::vector<std::vector<float>> float_keys_;             // of each head
  std::vector<std::vector<std::uint16_t>> bfloat16_keys_;  // of each head
  const float* float_queries_ = nullptr;                   // [num_heads, buckets, head_size]
  std::vector<std::uint16_t> bfloat16_queries_;
  std::size_t query_elements_ = 0;  // of a head
};

}  // namespace gpux_cpu::encoder
