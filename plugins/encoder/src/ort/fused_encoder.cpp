#include "ort/fused_encoder.h"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>

#include <sched.h>

#include "ort/graph_reader.h"
#include "ort/named_runs.h"
#include "ort/requested_outputs.h"
#include "ort/status.h"

namespace gpux_encoder {
namespace {

// A fused node has its values once each, in the order of first use: they are found by name.
std::size_t position_of(const std::string& name, const std::vector<Ort::ConstValueInfo>& values) {
  const auto found =
      std::ranges::find_if(values, [&](const Ort::ConstValueInfo& value) { return value.GetName() == name; });
  if (found == values.end()) throw Ort::Exception("the fused node has no '" + name + "'", ORT_EP_FAIL);
  return static_cast<std::size_t>(found - values.begin());
}

std::size_t usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

// Of int64 as they lie there, of int32 in `room`.
const std::int64_t* whole_numbers(const Ort::ConstValue& value, std::vector<std::int64_t>& room) {
  const auto type = value.GetTensorTypeAndShapeInfo();
  if (type.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) return value.GetTensorData<std::int64_t>();
  const auto* const narrow = value.GetTensorData<std::int32_t>();
  room.assign(narrow, narrow + type.GetElementCount());
  return room.data();
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

}  // namespace

Values values_of(const Ort::ConstNode& node, const PackedEncoder& encoder) {
  const auto take = [](const std::vector<Ort::ConstValueInfo>& from) {
    return [from, next = std::size_t{0}](bool is_there) mutable {
      if (!is_there) return std::string();
      if (next == from.size()) throw Ort::Exception("the context's node has too few inputs or outputs", ORT_EP_FAIL);
      return from[next++].GetName();
    };
  };
  // A run reads them as what the recognizer would have made sure of.
  const std::vector<Ort::ConstValueInfo> inputs = node.GetInputs();
  if (!std::ranges::all_of(inputs, [](const auto& info) { return info && token_input(info).has_value(); })) {
    throw Ort::Exception("the context's node takes something else than whole numbers for each token", ORT_EP_FAIL);
  }
  auto input = take(inputs), output = take(node.GetOutputs());
  Values values;
  values.ids = input(true);
  values.mask = input(encoder.takes_mask);
  values.types = input(encoder.takes_types);
  values.vectors = output(encoder.gives_vectors);
  values.hidden = output(encoder.gives_hidden);
  return values;
}

FusedEncoder::FusedEncoder(std::shared_ptr<const Encoder> encoder, const Values& values, const OrtNode* fused_node,
                           const std::set<std::string>& only_read_outside)
    : OrtNodeComputeInfo{}, encoder_(std::move(encoder)), processors_(usable_processors()) {
  ort_version_supported = ORT_API_VERSION;
  CreateState = create_state;
  Compute = compute_callback;
  ReleaseState = release_state;
  const std::vector<Ort::ConstValueInfo> inputs = Ort::ConstNode(fused_node).GetInputs();
  const std::vector<Ort::ConstValueInfo> outputs = Ort::ConstNode(fused_node).GetOutputs();
  const auto place = [](const std::string& name, const std::vector<Ort::ConstValueInfo>& among) {
    return name.empty() ? std::optional<std::size_t>() : position_of(name, among);
  };
  ids_ = position_of(values.ids, inputs);
  mask_ = place(values.mask, inputs);
  types_ = place(values.types, inputs);
  vectors_ = place(values.vectors, outputs);
  hidden_ = place(values.hidden, outputs);
  if (only_read_outside.contains(values.hidden)) optional_hidden_ = values.hidden;
}

OrtStatus* ORT_API_CALL FusedEncoder::create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* /*context*/,
                                                   void** state) noexcept {
  *state = self;
  return nullptr;
}

OrtStatus* ORT_API_CALL FusedEncoder::compute_callback(OrtNodeComputeInfo* /*self*/, void* state,
                                                       OrtKernelContext* context) noexcept {
  return as_status(
      [state, context] { static_cast<FusedEncoder*>(static_cast<OrtNodeComputeInfo*>(state))->compute(context); });
}

void ORT_API_CALL FusedEncoder::release_state(OrtNodeComputeInfo* /*self*/, void* /*state*/) noexcept {}

void FusedEncoder::compute(OrtKernelContext* context) const {
  const Ort::KernelContext kernel(context);
  const Ort::ConstValue ids = kernel.GetInput(ids_);
  const std::vector<std::int64_t> shape = ids.GetTensorTypeAndShapeInfo().GetShape();
  if (shape.size() != 2) throw InvalidBatch("token ids are not of two axes; accepted: [texts, tokens]");
  std::array<std::vector<std::int64_t>, 3> widened;
  const auto beside = [&](const std::optional<std::size_t>& input, std::size_t which) -> const std::int64_t* {
    if (!input) return nullptr;
    const Ort::ConstValue value = kernel.GetInput(*input);
    if (value.GetTensorTypeAndShapeInfo().GetShape() != shape) {
      throw InvalidBatch("token ids, attention mask and token types have different shapes; accepted: one shape");
    }
    return whole_numbers(value, widened[which]);
  };
  const Batch batch{static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), beside(ids_, 0),
                    beside(mask_, 1), beside(types_, 2)};
  const auto width = static_cast<std::int64_t>(encoder_->weights().hidden);
  Encoder::Results results;
  if (vectors_) results.vectors = kernel.GetOutput(*vectors_, {shape[0], width}).GetTensorMutableData<float>();
  // Of texts that are filled up, the hidden states take the longer part of the time.
  const bool reads_hidden = !vectors_ || optional_hidden_.empty() || WantedOutputs::include(optional_hidden_);
  if (hidden_ && reads_hidden)
    results.hidden = kernel.GetOutput(*hidden_, {shape[0], shape[1], width}).GetTensorMutableData<float>();
  if (shape[0] == 0) return;
  const NamedRuns::Flag stopped = NamedRuns::current();
  try {
    encoder_->run(
        batch, processors_,
        [context](std::size_t parts, const std::function<void(std::size_t)>& work) { run_parts(context, parts, work); },
        results, stopped.get());
  } catch (const Stopped&) {
    // In ONNX Runtime's own words, which its callers know.
    throw Ort::Exception("Exiting due to terminate flag being set to true.", ORT_FAIL);
  }
}

}  // namespace gpux_encoder
