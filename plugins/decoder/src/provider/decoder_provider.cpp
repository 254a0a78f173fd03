#include "provider/decoder_provider.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "block_kernels/block_kernels.h"
#include "graph/graph_reader.h"
#include "kernels/kernels.h"
#include "plugin/provider_description.h"
#include "provider/fused_decoder.h"

namespace gpux_cpu::decoder {
namespace {

constexpr std::array<std::string_view, 3> precision_names{"fp32", "bf16", "int8"};  // as DecoderPrecision has them

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
    if (tensor.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8) element_type = ElementType::int8;
    types.emplace(info.GetName(), element_type);
  }
  return types;
}

}  // namespace

DecoderProvider::DecoderProvider(DecoderPrecision precision, std::size_t threads, const OrtLogger* logger)
    : FusedProvider(logger), precision_(precision), threads_(threads) {}

void DecoderProvider::claim(const OrtGraph* given, OrtEpGraphSupportInfo* support) {
  const Ort::ConstGraph source(given);
  const Graph graph = read_graph(given, false);
  std::string reason;
  const std::optional<RecognizedDecoder> found = recognize(graph, cache_types(source), reason);
  if (!found) {
    log_unclaimed("no decoder is recognised: " + reason);
    return;
  }
  const std::vector<Ort::ConstNode> nodes = source.GetNodes();
  std::vector<const OrtNode*> claimed;
  for (const std::size_t index : found->nodes) claimed.push_back(nodes[index]);
  claim_nodes(support, claimed, true);
}

std::unique_ptr<FusedNode> DecoderProvider::fuse(const OrtGraph* given, const OrtNode* fused_node,
                                                 Ort::Node& /*context*/) const {
  const Graph graph = read_graph(given, true);
  std::string reason;
  const std::optional<RecognizedDecoder> found = recognize(graph, cache_types(Ort::ConstGraph(given)), reason);
  if (!found) throw Ort::Exception("what was claimed as a decoder is none: " + reason, ORT_EP_FAIL);
  DecoderValues values{found->input_ids, found->attention_mask, found->logits, {}};
  for (const RecognizedLayer& layer : found->layers) values.caches.push_back(layer.cache);
  auto decoder = std::make_shared<const Decoder>(weights_of(*found, precision_));
  return std::make_unique<FusedDecoder>(std::move(decoder), values, fused_node, threads_);
}

}  // namespace gpux_cpu::decoder

namespace gpux_cpu {

const ProviderDescription& provider_description() noexcept {
  static const ProviderDescription description{
      .name = "GpuxDecoderExecutionProvider",
      .version = DECODER_VERSION,
      .precisions = decoder::precision_names,
      .instruction_set =
          [] {
            (void)kernels();  // of float weights; a wrong GPUX_ENCODER_ISA is reported, too
            return decoder::block_kernels().name;
          },
      .make = [](const SessionSettings& settings, const OrtSessionOptions* /*options*/,
                 const OrtLogger* logger) -> std::unique_ptr<FusedProvider> {
        const auto precision = static_cast<decoder::DecoderPrecision>(settings.precision.value_or(0));
        return std::make_unique<decoder::DecoderProvider>(precision, settings.threads, logger);
      },
  };
  return description;
}

}  // namespace gpux_cpu
