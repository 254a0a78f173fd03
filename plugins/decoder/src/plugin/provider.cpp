#include "plugin/provider.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ort/graph_reader.h"
#include "plugin/fused_decoder.h"
#include "plugin/status.h"

namespace gpux_decoder {
namespace {

constexpr const char* run_name_option = "gpux.run";
constexpr const char* stop_run_option = "gpux.stop";

CacheTypes cache_types(const Ort::ConstGraph& graph) {
  CacheTypes types;
  constexpr std::size_t rank = 4;  // batch, heads, tokens, head size
  for (const Ort::ConstValueInfo& info : graph.GetInputs()) {
    const Ort::ConstTypeInfo type = info.TypeInfo();
    if (type.GetONNXType() != ONNX_TYPE_TENSOR) continue;
    const auto tensor = type.GetTensorTypeAndShapeInfo();
    if (tensor.GetShape().size() != rank) continue;
    ElementType element_type = ElementType::other;
    if (tensor.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) element_type = ElementType::float32;
    if (tensor.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16) element_type = ElementType::float16;
    types.emplace(info.GetName(), element_type);
  }
  return types;
}

}  // namespace

Provider::Provider(DecoderPrecision precision, std::size_t threads, const OrtLogger* logger)
    : OrtEp{}, precision_(precision), threads_(threads), logger_(logger) {
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
  });
}

OrtStatus* Provider::on_run_end(OrtEp* self, const OrtRunOptions* options, bool /*sync_stream*/) noexcept {
  return as_status([=] {
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

void Provider::claim(const OrtGraph* given, OrtEpGraphSupportInfo* support) {
  const Ort::ConstGraph source(given);
  const Graph graph = gpux_encoder::read_graph(given, false);
  std::string reason;
  const std::optional<RecognizedDecoder> found = recognize(graph, cache_types(source), reason);
  if (!found) {
    ORT_CXX_LOGF_NOEXCEPT(logger_, ORT_LOGGING_LEVEL_WARNING, "%s: no decoder is recognised: %s", provider_name,
                          reason.c_str());
    return;
  }
  const std::vector<Ort::ConstNode> nodes = source.GetNodes();
  std::vector<const OrtNode*> claimed;
  for (const std::size_t index : found->nodes) claimed.push_back(nodes[index]);
  OrtNodeFusionOptions options{};
  options.ort_version_supported = ORT_API_VERSION;
  // The weights are packed when this is compiled: ONNX Runtime need not keep its own.
  options.drop_constant_initializers = true;
  Ort::ThrowOnError(
      Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, claimed.data(), claimed.size(), &options));
}

OrtNodeComputeInfo* Provider::fuse(const OrtGraph* given, const OrtNode* fused_node) const {
  const Graph graph = gpux_encoder::read_graph(given, true);
  std::string reason;
  const std::optional<RecognizedDecoder> found = recognize(graph, cache_types(Ort::ConstGraph(given)), reason);
  if (!found) throw Ort::Exception("what was claimed as a decoder is none: " + reason, ORT_EP_FAIL);
  DecoderValues values{found->input_ids, found->attention_mask, found->logits, {}};
  for (const RecognizedLayer& layer : found->layers) values.caches.push_back(layer.cache);
  auto decoder = std::make_shared<const Decoder>(weights_of(*found, precision_));
  return std::make_unique<FusedDecoder>(std::move(decoder), values, fused_node, threads_).release();
}

OrtStatus* Provider::compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes, std::size_t count,
                             OrtNodeComputeInfo** compute_infos, OrtNode** /*context_nodes*/) noexcept {
  return as_status([=] {
    const Provider& provider = *static_cast<Provider*>(self);
    std::vector<std::unique_ptr<FusedDecoder>> fused;
    for (std::size_t i = 0; i < count; ++i) {
      fused.emplace_back(static_cast<FusedDecoder*>(provider.fuse(graphs[i], fused_nodes[i])));
    }
    // Handed over only when all are there: what a failed call leaves in the array is released by nobody.
    for (std::size_t i = 0; i < count; ++i) compute_infos[i] = fused[i].release();
  });
}

void Provider::release_compute_infos(OrtEp* /*self*/, OrtNodeComputeInfo** compute_infos, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) delete static_cast<FusedDecoder*>(compute_infos[i]);
}

}  // namespace gpux_decoder
