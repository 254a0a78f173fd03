#include "importer/encoder_graph.h"

#include <array>
#include <string>
#include <string_view>

#include "importer/families/masked_language_head.h"
#include "importer/graph/adapters.h"
#include "importer/graph/embeddings.h"
#include "importer/graph/graph_context.h"
#include "importer/graph/head_graph.h"
#include "importer/graph/pooling_graph.h"
#include "importer/graph/representation_graph.h"
#include "importer/graph/transformer_layers.h"
#include "importer/tensor_scope.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t opset = 20;  // the first with Gelu
constexpr std::int64_t ir_version = 9;

void write_vectors(GraphContext& context, const Architecture& architecture, const VectorSteps& steps,
                   const std::string& hidden) {
  const std::string_view last = "sentence_embedding";
  const auto name_if = [&](bool is_last) { return is_last ? last : std::string_view(); };
  std::string vector = pooled(context, hidden, steps.pooling, name_if(steps.dense.empty() && !steps.normalize));
  for (std::size_t i = 0; i < steps.dense.size(); ++i) {
    const bool is_last = i + 1 == steps.dense.size() && !steps.normalize;
    vector = dense(context, vector, steps.dense[i], fmt::format("dense.{}", i), name_if(is_last));
  }
  if (steps.normalize) vector = unit_vectors(context, vector, last);
  const std::int64_t size = steps.dense.empty() ? architecture.transformer.hidden_size : steps.dense.back().out;
  const std::array<onnx::WrittenSize, 2> sizes{"batch", size};
  context.graph().output(vector, ElementType::float32, sizes);
}

}  // namespace

void write_encoder(const checkpoint::Weights& weights, const Architecture& architecture, const VectorSteps& steps,
                   const std::filesystem::path& file, const RepresentationSteps& representations) {
  GraphContext context(weights);
  write_text_inputs(context, architecture.embeddings);
  if (architecture.tasks != 0) write_adapter_input(context);
  const bool gives_others = representations.splade || representations.token_vectors || representations.pair_score;
  const bool gives_vectors = architecture.head.kind == HeadKind::vectors && !gives_others;
  const std::string hidden =
      write_layers(context, architecture.transformer, write_embeddings(context, architecture.embeddings),
                   gives_vectors ? "last_hidden_state" : "");
  if (gives_vectors) {
    if (steps.pooling != GraphPooling::none) write_vectors(context, architecture, steps, hidden);
    const std::array<onnx::WrittenSize, 3> sizes{"batch", "sequence", architecture.transformer.hidden_size};
    context.graph().output(hidden, ElementType::float32, sizes);
    if (representations.token_weights) write_token_weights(context, *representations.token_weights, hidden);
    if (representations.colbert) {
      write_token_vectors(context, {*representations.colbert}, true, hidden, "colbert_vecs", 1);
    }
  } else if (representations.splade) {
    write_splade(context, find_masked_language_head(architecture, weights), *representations.splade, hidden);
  } else if (representations.token_vectors) {
    const TokenVectorSteps& steps_of_tokens = *representations.token_vectors;
    write_token_vectors(context, steps_of_tokens.dense, steps_of_tokens.normalize, hidden, "token_embeddings");
  } else if (representations.pair_score) {
    const std::string last = pooled(context, hidden, GraphPooling::last_token);
    const std::array<onnx::WrittenSize, 2> sizes{"batch", std::int64_t{1}};
    context.graph().output(dense(context, last, *representations.pair_score, "pair_score", "logits"),
                           ElementType::float32, sizes);
  } else {
    write_head(context, architecture.head, hidden);
  }
  refuse_unused(context, architecture);
  if (!file.empty()) context.graph().write(file, opset, ir_version);
}

}  // namespace gpux::importer
