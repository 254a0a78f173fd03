#include "recognizer/decoder_check.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace gpux_cpu::decoder {

void require_fitting_sizes(const RecognizedDecoder& decoder) {
  const std::size_t hidden = decoder.hidden_size, heads = decoder.heads * decoder.head_size;
  const std::size_t kv_heads = decoder.kv_heads * decoder.head_size;
  const auto require = [](bool fits, const char* what) {
    if (!fits) throw NotRecognized(std::string("the sizes of its ") + what + " do not fit each other");
  };
  const auto fits = [](const RecognizedMatrix& matrix, std::size_t inner, std::size_t columns) {
    return matrix.inner == inner && matrix.columns == columns;
  };
  const auto norm_fits = [](const std::optional<RecognizedNorm>& norm, std::size_t size) {
    return !norm || norm->size() == size;
  };
  require(decoder.language_head.inner == hidden, "language head");
  require(decoder.tokens.columns == decoder.language_head.columns, "vocabulary");
  require(norm_fits(decoder.final_norm, hidden), "final norm");
  require(decoder.positions == nullptr || decoder.positions->shape[1] == static_cast<std::int64_t>(hidden),
          "positions");
  for (const RecognizedLayer& layer : decoder.layers) {
    require(layer.query.inner == hidden, "queries");
    for (const std::optional<RecognizedMatrix>* matrix : {&layer.key, &layer.value}) {
      if (*matrix) require(fits(**matrix, hidden, kv_heads), "keys");
    }
    require(fits(layer.attention_output, heads, hidden), "attention output");
    require(layer.up.inner == hidden && fits(layer.down, layer.up.columns, hidden), "feed-forward layers");
    if (layer.gate) require(fits(*layer.gate, hidden, layer.up.columns), "feed-forward layers");
    for (const auto* const norm : {&layer.attention_input_norm, &layer.attention_branch_norm,
                                   &layer.feed_forward_input_norm, &layer.feed_forward_branch_norm}) {
      require(norm_fits(*norm, hidden), "norms");
    }
    require(norm_fits(layer.query_norm, decoder.head_size) || norm_fits(layer.query_norm, heads), "norms");
    require(norm_fits(layer.key_norm, decoder.head_size) || norm_fits(layer.key_norm, kv_heads), "norms");
  }
}

void require_values_inside(const RecognizedDecoder& decoder, const GraphIndex& index) {
  std::set<std::string> outputs{decoder.logits};
  for (const RecognizedLayer& layer : decoder.layers) {
    outputs.insert({layer.cache.present_key, layer.cache.present_value});
  }
  std::set<std::string> inside;
  for (const Node& node : index.graph().nodes) {
    if (!index.is_understood(node)) continue;
    for (const std::string& output : node.outputs) {
      if (!output.empty() && !outputs.contains(output)) inside.insert(output);
    }
  }
  for (const std::string& output : index.graph().outputs) {
    if (inside.contains(output)) throw NotRecognized("'" + output + "' is an output of the model");
  }
  for (const Node& node : index.graph().nodes) {
    if (index.is_understood(node)) continue;
    for (const std::string& input : node.inputs) {
      if (inside.contains(input)) throw index.not_understood(node.outputs.front());
    }
  }
}

}  // namespace gpux_cpu::decoder
