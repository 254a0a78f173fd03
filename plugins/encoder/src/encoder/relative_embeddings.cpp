#include "encoder/relative_embeddings.h"

#include <span>

namespace gpux_cpu::encoder {
namespace {

std::vector<std::uint16_t> to_bfloat16(const SharedArray<float>& values, const Kernels& kernels) {
  std::vector<std::uint16_t> rounded(values.size());
  kernels.to_bfloat16(values.data(), values.size(), rounded.data());
  return rounded;
}

}  // namespace

bool attends_in_bfloat16(const Weights& weights, const Layer& layer) noexcept {
  return layer.query_key_value.precision() != Precision::fp32 && weights.head_size % bfloat16_depth == 0;
}

PackedRelativeEmbeddings::PackedRelativeEmbeddings(const Weights& weights, const Layer& layer, const Kernels& kernels)
    : buckets_(weights.relative_buckets.data()) {
  const bool in_bfloat16 = attends_in_bfloat16(weights, layer);
  if (!layer.relative_keys.empty()) {
    const std::size_t elements = layer.relative_keys.size() / weights.num_heads;
    const std::vector<std::uint16_t> rounded =
        in_bfloat16 ? to_bfloat16(layer.relative_keys, kernels) : std::vector<std::uint16_t>();
    for (std::size_t head = 0; head < weights.num_heads; ++head) {
      if (in_bfloat16) {
        bfloat16_keys_.push_back(
            packed_columns(std::span(rounded).subspan(head * elements, elements), weights.head_size));
      } else {
        const std::span<const float> all(layer.relative_keys.data(), layer.relative_keys.size());
        float_keys_.push_back(packed_columns(all.subspan(head * elements, elements), weights.head_size));
      }
    }
  }
  if (layer.relative_queries.empty()) return;
  query_elements_ = layer.relative_queries.size() / weights.num_heads;
  if (in_bfloat16) {
    bfloat16_queries_ = to_bfloat16(layer.relative_queries, kernels);
  } else {
    float_queries_ = layer.relative_queries.data();
  }
}

}  // namespace gpux_cpu::encoder
