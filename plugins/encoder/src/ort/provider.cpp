#include "ort/provider.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/shared_encoders.h"
#include "ort/context.h"
#include "ort/fused_encoder.h"
#include "ort/graph_reader.h"
#include "ort/requested_outputs.h"
#include "ort/status.h"
#include "recognizer/graph.h"
#include "recognizer/graph_digest.h"
#include "recognizer/recognizer.h"

namespace gpux_encoder {
namespace {

constexpr const char* run_name_option = "gpux.run";
constexpr const char* stop_run_option = "gpux.stop";
constexpr const char* outputs_option = "gpux.outputs";

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

Provider::Provider(std::optional<Precision> precision, ContextOptions context, std::size_t threads,
                   const OrtLogger* logger)
    : OrtEp{}, precision_(precision), context_(std::move(context)), threads_(threads), logger_(logger) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_compute_infos;
  OnRunStart = on_run_start;
  OnRunEnd = on_run_end;
  SetDynamicOptions = set_dynamic_options;
}

OrtStatus* Provider::on_run_start(OrtEp* self, const OrtRunOptions* options) noexcept {
  return as_status([=] {
    if (const char* name = Ort::GetApi().GetRunConfigEntry(options, run_name_option)) {
      static_cast<Provider*>(self)->runs_.begin(name);
    }
    if (const char* names = Ort::GetApi().GetRunConfigEntry(options, outputs_option)) RequestedOutputs::begin(names);
  });
}

OrtStatus* Provider::on_run_end(OrtEp* self, const OrtRunOptions* options, bool /*sync_stream*/) noexcept {
  return as_status([=] {
    RequestedOutputs::end();
    if (const char* name = Ort::GetApi().GetRunConfigEntry(options, run_name_option)) {
      static_cast<Provider*>(self)->runs_.end(name);
    }
  });
}

OrtStatus* Provider::set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                         std::size_t count) noexcept {
  return as_status([=] {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::string_view(keys[i]) == stop_run_option) static_cast<Provider*>(self)->runs_.stop(values[i]);
    }
  });
}

const char* Provider::get_name(const OrtEp* /*self*/) noexcept {
  return provider_name;
}

OrtStatus* Provider::get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
  return as_status([=] { static_cast<Provider*>(self)->claim(graph, support); });
}

// Each alone: each was one encoder.
void Provider::claim_contexts(const std::vector<Ort::ConstNode>& nodes, OrtEpGraphSupportInfo* support) {
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (!is_context(nodes[index])) continue;
    const std::vector<Ort::ConstValueInfo> outputs = nodes[index].GetOutputs();
    // Hidden states are never the first of two.
    const std::string hidden_states = outputs.empty() ? "" : outputs.back().GetName();
    if (!hidden_states.empty() && !is_taken_outside(hidden_states, {index}, nodes))
      only_read_by_caller_.insert(hidden_states);
    const OrtNode* const node = nodes[index];
    Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, &options));
  }
}

void Provider::claim(const OrtGraph* given, OrtEpGraphSupportInfo* support) {
  const std::vector<Ort::ConstNode> nodes = Ort::ConstGraph(given).GetNodes();
  if (std::ranges::any_of(nodes, is_context)) {
    claim_contexts(nodes, support);
    return;
  }
  const Graph graph = read_graph(given, false);
  std::string reason;
  const std::optional<RecognizedEncoder> found = recognize(graph, reason);
  if (!found) {
    ORT_CXX_LOGF_NOEXCEPT(logger_, ORT_LOGGING_LEVEL_WARNING, "%s: no encoder is recognised: %s", provider_name,
                          reason.c_str());
    return;
  }
  std::vector<const OrtNode*> claimed;
  for (const std::size_t index : found->nodes) claimed.push_back(nodes[index]);
  const std::set<std::size_t> own(found->nodes.begin(), found->nodes.end());
  if (!found->hidden_states.empty() && !is_taken_outside(found->hidden_states, own, nodes))
    only_read_by_caller_.insert(found->hidden_states);
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  // The weights are packed when this is compiled: ONNX Runtime need not keep its own.
  options.drop_constant_initializers = true;
  Ort::ThrowOnError(
      Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, claimed.data(), claimed.size(), &options));
}

OrtNodeComputeInfo* Provider::fuse(const OrtGraph* graph, const OrtNode* fused_node, OrtNode** context_node) const {
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
      *context_node = make_context(packed, context_, source.GetModelPath(), Ort::ConstNode(fused_node).GetName(),
                                   values.inputs(), values.outputs());
    }
  }
  return std::make_unique<FusedEncoder>(std::move(encoder), values, fused_node, only_read_by_caller_, threads_)
      .release();
}

OrtStatus* Provider::compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes, std::size_t count,
                             OrtNodeComputeInfo** compute_infos, OrtNode** context_nodes) noexcept {
  return as_status([=] {
    const Provider& provider = *static_cast<Provider*>(self);
    std::vector<std::unique_ptr<FusedEncoder>> fused;
    std::vector<Ort::Node> contexts;
    for (std::size_t i = 0; i < count; ++i) {
      OrtNode* context = nullptr;
      fused.emplace_back(static_cast<FusedEncoder*>(provider.fuse(graphs[i], fused_nodes[i], &context)));
      contexts.emplace_back(context);
    }
    // Handed over only when all are there: what a failed call leaves in the arrays is released by nobody.
    for (std::size_t i = 0; i < count; ++i) {
      compute_infos[i] = fused[i].release();
      if (contexts[i]) context_nodes[i] = contexts[i].release();
    }
  });
}

void Provider::release_compute_infos(OrtEp* /*self*/, OrtNodeComputeInfo** compute_infos, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) delete static_cast<FusedEncoder*>(compute_infos[i]);
}

}  // namespace gpux_encoder
