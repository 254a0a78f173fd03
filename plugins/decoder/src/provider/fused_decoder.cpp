#include "provider/fused_decoder.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "plugin/named_runs.h"
#include "plugin/requested_outputs.h"

namespace gpux_cpu::decoder {
namespace {

using Shape = std::vector<std::int64_t>;

Shape shape_of(const Ort::ConstValue& value) {
  return value.GetTensorTypeAndShapeInfo().GetShape();
}

}  // namespace

FusedDecoder::FusedDecoder(std::shared_ptr<const Decoder> decoder, const DecoderValues& values,
                           const OrtNode* fused_node, std::size_t threads)
    : decoder_(std::move(decoder)), threads_(threads) {
  const std::vector<Ort::ConstValueInfo> inputs = Ort::ConstNode(fused_node).GetInputs();
  const std::vector<Ort::ConstValueInfo> outputs = Ort::ConstNode(fused_node).GetOutputs();
  input_ids_ = index_of(values.input_ids, inputs);
  attention_mask_ = index_of(values.attention_mask, inputs);
  logits_ = index_of(values.logits, outputs);
  for (const CacheNames& names : values.caches) {
    caches_.push_back({index_of(names.past_key, inputs), index_of(names.past_value, inputs),
                       index_of(names.present_key, outputs), index_of(names.present_value, outputs)});
  }
}

void FusedDecoder::set_caches(const Ort::KernelContext& kernel, DecoderBatch& batch) const {
  const DecoderWeights& weights = decoder_->weights();
  const std::size_t row_size = cache_row_size(weights.cache_form, weights.head_size);
  std::optional<Shape> first;
  for (const CacheIndices& indices : caches_) {
    LayerCache cache;
    for (const bool is_key : {true, false}) {
      const Ort::ConstValue past = kernel.GetInput(is_key ? indices.past_key : indices.past_value);
      const Shape shape = shape_of(past);
      if (!first) {
        first = shape;
        if (shape.size() != 4 || shape[0] != static_cast<std::int64_t>(batch.batch) ||
            shape[1] != static_cast<std::int64_t>(weights.kv_heads) ||
            shape[3] != static_cast<std::int64_t>(row_size)) {
          throw InvalidInput("past_key_values are not [batch, " + std::to_string(weights.kv_heads) + ", tokens, " +
                             std::to_string(row_size) + "]");
        }
        batch.past_length = static_cast<std::size_t>(shape[2]);
        batch.present_length = std::max(batch.past_length, batch.total);
      }
      if (shape != first) throw InvalidInput("past_key_values have different shapes; accepted: one shape");
      Shape present_shape = shape;
      present_shape[2] = static_cast<std::int64_t>(batch.present_length);
      Ort::UnownedValue present = kernel.GetOutput(is_key ? indices.present_key : indices.present_value, present_shape);
      (is_key ? cache.past_keys : cache.past_values) = past.GetTensorRawData();
      (is_key ? cache.present_keys : cache.present_values) = present.GetTensorMutableRawData();
    }
    batch.layers.push_back(cache);
  }
}

void FusedDecoder::compute(OrtKernelContext* context) const {
  const Ort::KernelContext kernel(context);
  const Ort::ConstValue input_ids = kernel.GetInput(input_ids_), mask = kernel.GetInput(attention_mask_);
  const Shape ids_shape = shape_of(input_ids), mask_shape = shape_of(mask);
  if (ids_shape.size() != 2) throw InvalidInput("input_ids is not of two axes; accepted: [batch, tokens]");
  if (mask_shape.size() != 2 || mask_shape[0] != ids_shape[0]) {
    throw InvalidInput("attention_mask is not [batch, tokens] of the batch of input_ids");
  }
  std::vector<std::int64_t> ids_scratch, mask_scratch;
  DecoderBatch batch{.batch = static_cast<std::size_t>(ids_shape[0]),
                     .sequence = static_cast<std::size_t>(ids_shape[1]),
                     .total = static_cast<std::size_t>(mask_shape[1]),
                     .input_ids = as_int64(input_ids, ids_scratch),
                     .attention_mask = as_int64(mask, mask_scratch)};
  set_caches(kernel, batch);
  const auto vocabulary = static_cast<std::int64_t>(decoder_->weights().vocabulary);
  batch.has_all_logits = RequestedOutputs::has_all_logits();
  const std::int64_t positions = batch.has_all_logits ? ids_shape[1] : 1;
  batch.logits = kernel.GetOutput(logits_, {ids_shape[0], positions, vocabulary}).GetTensorMutableData<float>();
  const NamedRuns::Flag stopped = NamedRuns::current();
  decoder_->run(batch, threads_, session_threads(context), stopped.get());
}

}  // namespace gpux_cpu::decoder
