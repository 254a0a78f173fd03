#include "importer/families/masked_language_head.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::importer {
namespace {

/// What a family calls the tensors of its head.
struct Layout {
  std::string_view dense, norm, decoder;
  std::array<std::string_view, 2> biases;  ///< the first that is there
  bool has_own_activation;                 ///< gelu, whatever the encoder's is
};

constexpr std::array layouts{
    Layout{"cls.predictions.transform.dense",
           "cls.predictions.transform.LayerNorm",
           "cls.predictions.decoder",
           {"cls.predictions.bias", "cls.predictions.decoder.bias"},
           false},
    Layout{"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", {"lm_head.bias", "lm_head.decoder.bias"}, true},
    Layout{"vocab_transform", "vocab_layer_norm", "vocab_projector", {"vocab_projector.bias", ""}, false},
    Layout{"head.dense", "head.norm", "decoder", {"decoder.bias", ""}, true},
};

std::string weight_of(std::string_view name) {
  return std::string(name) + ".weight";
}

std::string bias_of(std::string_view name, const checkpoint::Weights& weights) {
  const std::string bias = std::string(name) + ".bias";
  return weights.has(bias) ? bias : std::string();
}

}  // namespace

MaskedLanguageHead find_masked_language_head(const Architecture& architecture, const checkpoint::Weights& weights) {
  const auto* const layout = std::ranges::find_if(layouts, [&](const Layout& each) {
    return weights.has(weight_of(each.dense)) && weights.has(weight_of(each.norm));
  });
  const auto refuse = [&](std::string_view what) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("modules.json names a SpladePooling, and the weights of this {} have no {}; accepted: the head "
                    "of a masked language model as BERT, RoBERTa, DistilBERT and ModernBERT have it",
                    architecture.model_type, what));
  };
  if (layout == layouts.end()) refuse("head of a masked language model");
  const std::int64_t hidden = architecture.transformer.hidden_size, vocabulary = architecture.embeddings.vocabulary;
  MaskedLanguageHead head;
  head.dense = {
      .weight = weight_of(layout->dense), .bias = bias_of(layout->dense, weights), .in = hidden, .out = hidden};
  if (!layout->has_own_activation && !architecture.transformer.layers.empty()) {
    head.activation = architecture.transformer.layers.front().feed_forward.activation;
  }
  head.norm = {.weight = weight_of(layout->norm), .bias = bias_of(layout->norm, weights), .size = hidden};
  if (architecture.embeddings.norm) head.norm.epsilon = architecture.embeddings.norm->epsilon;
  const bool has_decoder = weights.has(weight_of(layout->decoder));
  if (!has_decoder && architecture.embeddings.size != hidden) refuse("decoder");
  head.decoder = {.weight = has_decoder ? weight_of(layout->decoder) : architecture.embeddings.words,
                  .in = hidden,
                  .out = vocabulary};
  for (const std::string_view bias : layout->biases) {
    if (head.bias.empty() && !bias.empty() && weights.has(bias)) head.bias = bias;
  }
  if (head.bias.empty()) refuse("bias of the decoder");
  return head;
}

}  // namespace gpux::importer
