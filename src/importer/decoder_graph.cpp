#include "importer/decoder_graph.h"

#include <array>
#include <cstdint>
#include <limits>

#include "importer/graph/cached_attention.h"
#include "importer/graph/embeddings.h"
#include "importer/graph/graph_context.h"
#include "importer/graph/transformer_layers.h"
#include "importer/tensor_scope.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t opset = 20;
constexpr std::int64_t ir_version = 9;

void write_inputs(GraphContext& context, const Transformer& transformer) {
  const std::array<onnx::WrittenSize, 2> tokens{"batch", "sequence"}, mask{"batch", "total_sequence"};
  context.graph().input("input_ids", ElementType::int64, tokens);
  context.graph().input("attention_mask", ElementType::int64, mask);
  const std::array<onnx::WrittenSize, 3> logits{"batch", std::int64_t{1}, "vocabulary"};
  context.graph().output("logits", ElementType::float32, logits);
  write_cache_values(context, transformer);
}

std::string capped(GraphContext& context, const std::string& values, float cap) {
  const std::string bounded = context.node("Tanh", {context.node("Div", {values, context.scalar(cap)})});
  return context.node("Mul", {bounded, context.scalar(cap)});
}

void write_logits(GraphContext& context, const LanguageHead& head, const LogitSteps& steps, const std::string& hidden) {
  const std::string end = context.list({std::numeric_limits<std::int64_t>::max()});
  const std::string last = context.node("Slice", {hidden, context.list({-1}), end, context.list({1})});
  const std::string rows = context.node("Squeeze", {last, context.list({1})});
  std::string products = context.linear_by_rows(rows, head.linear);
  if (steps.divisor != 1) products = context.node("Div", {products, context.scalar(steps.divisor)});
  if (steps.soft_cap != 0) products = capped(context, products, steps.soft_cap);
  context.node("Unsqueeze", {products, context.list({1})}, {}, "logits");
}

}  // namespace

void write_decoder(const checkpoint::Weights& weights, const Architecture& architecture, const LanguageHead& head,
                   const WeightStorage& storage, const std::filesystem::path& file) {
  const Transformer& transformer = architecture.transformer;
  GraphContext context(weights, Operators::onnxruntime, storage);
  write_inputs(context, transformer);
  const Embeddings& embeddings = architecture.embeddings;
  const std::string positions = embeddings.positions.empty() ? std::string() : token_positions(context);
  const std::string hidden =
      write_layers(context, transformer, write_embeddings(context, embeddings, positions), {},
                   [&](const std::string& input, const Attention& attention, std::size_t layer) {
                     return cached_attention(context, transformer, attention, layer, architecture.max_tokens, input);
                   });
  write_logits(context, head, architecture.logits, hidden);
  refuse_unused(context, architecture);
  // Larger weights are in a file of their own, which is mapped when the model is loaded, and not copied.
  constexpr std::uint64_t max_file_bytes = std::uint64_t{64} << 20;
  if (!file.empty()) context.graph().write(file, opset, ir_version, max_file_bytes);
}

}  // namespace gpux::importer
