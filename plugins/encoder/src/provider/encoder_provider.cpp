#include "provider/encoder_provider.h"

#include <algorithm>
#include <utility>

#include "encoder/encoder.h"
#include "encoder/shared_encoders.h"
#include "graph/graph.h"
#include "graph/graph_reader.h"
#include "kernels/kernels.h"
#include "plugin/provider_description.h"
#include "provider/fused_encoder.h"
#include "recognizer/graph_digest.h"
#include "recognizer/recognizer.h"

namespace gpux_cpu::encoder {
namespace {

SharedEncoders& shared_encoders() {
  static SharedEncoders all;
  return all;
}

/// Whether a node that is not one of `own` takes the value.
bool is_taken_outside(const std::string& name, const std::set<std::size_t>& own,
                      const std::vector<Ort::ConstNode>& nodes) {
  const auto is_it = [&](const Ort::ConstValueInfo& value) { return value && value.GetName() == name; };
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (own.contains(index)) continue;
    if (std::ranges::any_of(nodes[index].GetInputs(), is_it)) return true;
    if (std::ranges::any_of(nodes[index].GetImplicitInputs(), is_it)) return true;
  }
  return false;
}

std::string name_of(Precision precision) {
  return std::string(precision_names[static_cast<std::size_t>(precision)]);
}

}  // namespace

EncoderProvider::EncoderProvider(std::optional<Precision> precision, ContextOptions context, std::size_t threads,
                                 const OrtLogger* logger)
    : FusedProvider(logger), precision_(precision), context_(std::move(context)), threads_(threads) {}

// Each alone: each was one encoder.
void EncoderProvider::claim_contexts(const std::vector<Ort::ConstNode>& nodes, OrtEpGraphSupportInfo* support) {
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (!is_context(nodes[index])) continue;
    const std::vector<Ort::ConstValueInfo> outputs = nodes[index].GetOutputs();
    // Hidden states are never the first of two.
    const std::string hidden_states = outputs.empty() ? "" : outputs.back().GetName();
    if (!hidden_states.empty() && !is_taken_outside(hidden_states, {index}, nodes))
      only_read_by_caller_.insert(hidden_states);
    const OrtNode* const node = nodes[index];
    claim_nodes(support, {&node, 1}, false);
  }
}

void EncoderProvider::claim(const OrtGraph* given, OrtEpGraphSupportInfo* support) {
  const std::vector<Ort::ConstNode> nodes = Ort::ConstGraph(given).GetNodes();
  if (std::ranges::any_of(nodes, is_context)) {
    claim_contexts(nodes, support);
    return;
  }
  const Graph graph = read_graph(given, false);
  std::string reason;
  const std::optional<RecognizedEncoder> found = recognize(graph, reason);
  if (!found) {
    log_unclaimed("no encoder is recognised: " + reason);
    return;
  }
  std::vector<const OrtNode*> claimed;
  for (const std::size_t index : found->nodes) claimed.push_back(nodes[index]);
  const std::set<std::size_t> own(found->nodes.begin(), found->nodes.end());
  if (!found->hidden_states.empty() && !is_taken_outside(found->hidden_states, own, nodes))
    only_read_by_caller_.insert(found->hidden_states);
  claim_nodes(support, claimed, true);
}

std::unique_ptr<FusedNode> EncoderProvider::fuse(const OrtGraph* graph, const OrtNode* fused_node,
                                                 Ort::Node& context) const {
  const Ort::ConstGraph source(graph);
  const std::vector<Ort::ConstNode> nodes = source.GetNodes();
  PackedEncoder packed;
  EncoderValues values;
  std::shared_ptr<const Encoder> encoder;
  const auto shared = [&packed](const SharedEncoders::Make& make) {
    return shared_encoders().get(packed.digest, make);
  };
  if (nodes.size() == 1 && is_context(nodes.front())) {
    packed = open_context(nodes.front(), source.GetModelPath());
    if (precision_ && *precision_ != packed.precision) {
      throw Ort::Exception(
          "the model was compiled in " + name_of(packed.precision) + "; asked for is " + name_of(*precision_),
          ORT_INVALID_ARGUMENT);
    }
    values = values_of(nodes.front(), packed);
    encoder = shared([&packed] { return std::make_unique<Encoder>(std::move(packed.weights), kernels()); });
  } else {
    const Graph read = read_graph(graph, true);
    std::string reason;
    const std::optional<RecognizedEncoder> found = recognize(read, reason);
    if (!found) throw Ort::Exception("what was claimed as an encoder is none: " + reason, ORT_EP_FAIL);
    const MaskSource& mask = found->mask.source;
    values = {found->embeddings.input_ids,
              mask.masked_id ? "" : mask.input,
              found->embeddings.token_type_ids,
              "",
              found->vectors,
              found->hidden_states};
    packed.precision = precision_.value_or(Precision::fp32);
    packed.digest = digest_of(read, packed.precision);
    encoder = shared([&] { return std::make_unique<Encoder>(weights_of(*found, packed.precision), kernels()); });
    if (context_.enabled) {
      packed.has_attention_mask = !values.attention_mask.empty();
      packed.has_token_type_ids = !values.token_type_ids.empty();
      packed.has_position_ids = !values.position_ids.empty();
      packed.has_vectors = !values.vectors.empty();
      packed.has_hidden_states = !values.hidden_states.empty();
      packed.weights = encoder->weights();
      context = make_context(packed, context_, source.GetModelPath(), Ort::ConstNode(fused_node).GetName(),
                             values.inputs(), values.outputs());
    }
  }
  return std::make_unique<FusedEncoder>(std::move(encoder), values, fused_node, only_read_by_caller_, threads_);
}

}  // namespace gpux_cpu::encoder

namespace gpux_cpu {

const ProviderDescription& provider_description() noexcept {
  static const ProviderDescription description{
      .name = encoder::provider_name,
      .version = ENCODER_VERSION,
      .precisions = precision_names,
      .instruction_set = [] { return kernels().name; },
      .make = [](const SessionSettings& settings, const OrtSessionOptions* options,
                 const OrtLogger* logger) -> std::unique_ptr<FusedProvider> {
        std::optional<Precision> precision;
        if (settings.precision) precision = static_cast<Precision>(*settings.precision);
        return std::make_unique<encoder::EncoderProvider>(precision, encoder::context_options(options),
                                                          settings.threads, logger);
      },
  };
  return description;
}

}  // namespace gpux_cpu
