#include "plugin/fused_decoder.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "ort/named_runs.h"
#include "plugin/status.h"

namespace gpux_decoder {
namespace {

using Shape = std::vector<std::int64_t>;

// A fused node has its values once each, in the order of first use: they are found by name.
std::size_t index_of(const std::string& name, const std::vector<Ort::ConstValueInfo>& values) {
  const auto found =
      std::ranges::find_if(values, [&](const Ort::ConstValueInfo& value) { return value.GetName() == name; });
  if (found == values.end()) throw Ort::Exception("the fused node has no '" + name + "'", ORT_EP_FAIL);
  return static_cast<std::size_t>(found - values.begin());
}

// int64 in place, int32 converted into `scratch`.
const std::int64_t* as_int64(const Ort::ConstValue& value, std::vector<std::int64_t>& scratch) {
  const auto type = value.GetTensorTypeAndShapeInfo();
  if (type.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) return value.GetTensorData<std::int64_t>();
  const auto* const data = value.GetTensorData<std::int32_t>();
  scratch.assign(data, data + type.GetElementCount());
  return scratch.data();
}

// On ONNX Runtime's own threads. Nothing may be thrown through them.
void run_parts(const OrtKernelContext* context, std::size_t parts, const std::function<void(std::size_t)>& work) {
  struct Shared {
    const std::function<void(std::size_t)>& work;
    std::mutex mutex;
    std::exception_ptr failure;
  } shared{work, {}, nullptr};

  const auto run = [](void* data, std::size_t part) noexcept {
    auto& all = *static_cast<Shared*>(data);
    try {
      all.work(part);
    } catch (...) {
      const std::lock_guard lock(all.mutex);
      if (!all.failure) all.failure = std::current_exception();
    }
  };
  Ort::ThrowOnError(Ort::GetApi().KernelContext_ParallelFor(context, run, parts, 0, &shared));
  if (shared.failure) std::rethrow_exception(shared.failure);
}

Shape shape_of(const Ort::ConstValue& value) {
  return value.GetTensorTypeAndShapeInfo().GetShape();
}

}  // namespace

FusedDecoder::FusedDecoder(std::shared_ptr<const Decoder> decoder, const DecoderValues& values,
                           const OrtNode* fused_node, std::size_t threads)
    : OrtNodeComputeInfo{}, decoder_(std::move(decoder)), threads_(threads) {
  ort_version_supported = ORT_API_VERSION;
  CreateState = create_state;
  Compute = compute_callback;
  ReleaseState = release_state;
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

OrtStatus* ORT_API_CALL FusedDecoder::create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* /*context*/,
                                                   void** state) noexcept {
  *state = self;
  return nullptr;
}

OrtStatus* ORT_API_CALL FusedDecoder::compute_callback(OrtNodeComputeInfo* /*self*/, void* state,
                                                       OrtKernelContext* context) noexcept {
  return as_status(
      [state, context] { static_cast<FusedDecoder*>(static_cast<OrtNodeComputeInfo*>(state))->compute(context); });
}

void ORT_API_CALL FusedDecoder::release_state(OrtNodeComputeInfo* /*self*/, void* /*state*/) noexcept {}

void FusedDecoder::set_caches(const Ort::KernelContext& kernel, DecoderBatch& batch) const {
  const DecoderWeights& weights = decoder_->weights();
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
            shape[3] != static_cast<std::int64_t>(weights.head_size)) {
          throw InvalidInput("past_key_values are not [batch, " + std::to_string(weights.kv_heads) + ", tokens, " +
                             std::to_string(weights.head_size) + "]");
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
  batch.logits = kernel.GetOutput(logits_, {ids_shape[0], 1, vocabulary}).GetTensorMutableData<float>();
  const gpux_encoder::NamedRuns::Flag stopped = gpux_encoder::NamedRuns::current();
  decoder_->run(
      batch, threads_,
      [context](std::size_t parts, const std::function<void(std::size_t)>& work) { run_parts(context, parts, work); },
      stopped.get());
}

}  // namespace gpux_decoder
