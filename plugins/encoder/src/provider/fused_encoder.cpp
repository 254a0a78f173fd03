#include "provider/fused_encoder.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/graph_reader.h"
#include "plugin/named_runs.h"
#include "plugin/requested_outputs.h"

namespace gpux_cpu::encoder {

EncoderValues values_of(const Ort::ConstNode& node, const PackedEncoder& encoder) {
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
  EncoderValues values;
  values.input_ids = input(true);
  values.attention_mask = input(encoder.has_attention_mask);
  values.token_type_ids = input(encoder.has_token_type_ids);
  values.position_ids = input(encoder.has_position_ids);
  values.vectors = output(encoder.has_vectors);
  values.hidden_states = output(encoder.has_hidden_states);
  return values;
}

FusedEncoder::FusedEncoder(std::shared_ptr<const Encoder> encoder, const EncoderValues& values,
                           const OrtNode* fused_node, const std::set<std::string>& only_read_by_caller,
                           std::size_t threads)
    : encoder_(std::move(encoder)), threads_(threads) {
  const std::vector<Ort::ConstValueInfo> inputs = Ort::ConstNode(fused_node).GetInputs();
  const std::vector<Ort::ConstValueInfo> outputs = Ort::ConstNode(fused_node).GetOutputs();
  const auto optional_index = [](const std::string& name, const std::vector<Ort::ConstValueInfo>& among) {
    return name.empty() ? std::optional<std::size_t>() : index_of(name, among);
  };
  input_ids_ = index_of(values.input_ids, inputs);
  attention_mask_ = optional_index(values.attention_mask, inputs);
  token_type_ids_ = optional_index(values.token_type_ids, inputs);
  position_ids_ = optional_index(values.position_ids, inputs);
  vectors_ = optional_index(values.vectors, outputs);
  hidden_states_ = optional_index(values.hidden_states, outputs);
  if (only_read_by_caller.contains(values.hidden_states)) optional_hidden_states_ = values.hidden_states;
}

void FusedEncoder::compute(OrtKernelContext* context) const {
  const Ort::KernelContext kernel(context);
  const Ort::ConstValue input_ids = kernel.GetInput(input_ids_);
  const std::vector<std::int64_t> shape = input_ids.GetTensorTypeAndShapeInfo().GetShape();
  if (shape.size() != 2) throw InvalidInput("token ids are not of two axes; accepted: [texts, tokens]");
  std::array<std::vector<std::int64_t>, 4> converted;
  const auto data_of = [&](const std::optional<std::size_t>& input, std::size_t which) -> const std::int64_t* {
    if (!input) return nullptr;
    const Ort::ConstValue value = kernel.GetInput(*input);
    if (value.GetTensorTypeAndShapeInfo().GetShape() != shape) {
      throw InvalidInput(
          "token ids, attention mask, token types and position ids have different shapes; accepted: one shape");
    }
    return as_int64(value, converted[which]);
  };
  const Batch batch{static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), data_of(input_ids_, 0),
                    data_of(attention_mask_, 1),        data_of(token_type_ids_, 2),        data_of(position_ids_, 3)};
  const auto hidden_size = static_cast<std::int64_t>(encoder_->weights().hidden_size);
  const auto vector_elements = static_cast<std::int64_t>(vector_size(encoder_->weights()));
  Encoder::Results results;
  if (vectors_)
    results.vectors = kernel.GetOutput(*vectors_, {shape[0], vector_elements}).GetTensorMutableData<float>();
  // Of padded texts, the hidden states take most of the time.
  const bool reads_hidden_states =
      !vectors_ || optional_hidden_states_.empty() || RequestedOutputs::include(optional_hidden_states_);
  if (hidden_states_ && reads_hidden_states)
    results.hidden_states =
        kernel.GetOutput(*hidden_states_, {shape[0], shape[1], hidden_size}).GetTensorMutableData<float>();
  if (shape[0] == 0) return;
  const NamedRuns::Flag stopped = NamedRuns::current();
  encoder_->run(batch, threads_, session_threads(context), results, stopped.get());
}

}  // namespace gpux_cpu::encoder
