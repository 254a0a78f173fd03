#include "generation/decoder_signature.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

const SignatureEntry* find(const std::vector<SignatureEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &SignatureEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::uint64_t nodes_of(const ModelInfo& model, const std::string& type) {
  const auto found = model.operators.find(type);
  return found == model.operators.end() ? 0 : found->second;
}

/// Compares a model's inputs and outputs with those of a decoder.
class Matcher {
 public:
  Matcher(const ModelInfo& model, const DecoderNames& names, std::int64_t head_size)
      : model_(model), head_size_(head_size) {
    decoder_.names = names;
  }

  DecoderMatch run() {
    const DecoderNames& names = decoder_.names;
    const std::vector<SignatureEntry>& inputs = model_.signature.inputs;
    if (find(inputs, "use_cache_branch") != nullptr) {
      return {{},
              "it is a merged decoder, whose two branches compute with and without a cache (use_cache_branch); export "
              "the model without merging (optimum-cli export onnx --task text-generation-with-past)"};
    }
    for (const std::string& name : {names.input_ids, names.attention_mask}) {
      if (!has(inputs, name)) return refused();
      if (find(inputs, name)->type.element != ElementType::int64) {
        return {{}, fmt::format("its input {} is not of int64", name)};
      }
    }
    if (!has(model_.signature.outputs, names.logits)) return refused();
    constexpr std::size_t max_layers = 1024;
    while (find(inputs, name_of_layer(names.past_key, decoder_.layers.size())) != nullptr) {
      if (decoder_.layers.size() == max_layers) return {{}, fmt::format("it has more than {} layers", max_layers)};
      if (!add_layer(decoder_.layers.size())) return refused();
    }
    if (decoder_.layers.empty()) {
      return {{}, fmt::format("it has no input {}", name_of_layer(names.past_key, 0))};
    }
    const std::string unknown = unknown_inputs();
    if (!unknown.empty()) return {{}, "it has inputs of another kind: " + unknown};
    decoder_.cache.arrays = 2 * decoder_.layers.size();
    decoder_.has_position_ids = find(inputs, names.position_ids) != nullptr;
    decoder_.writes_in_place = nodes_of(model_, "com.microsoft::GroupQueryAttention") == decoder_.layers.size();
    return {std::move(decoder_), {}};
  }

 private:
  [[nodiscard]] DecoderMatch refused() const { return {{}, obstacle_}; }

  bool has(const std::vector<SignatureEntry>& entries, const std::string& name) {
    if (find(entries, name) != nullptr) return true;
    obstacle_ = fmt::format("it has no {}", name);
    return false;
  }

  bool add_layer(std::size_t index) {
    const DecoderNames& names = decoder_.names;
    DecoderSignature::Layer layer{name_of_layer(names.past_key, index), name_of_layer(names.past_value, index),
                                  name_of_layer(names.present_key, index), name_of_layer(names.present_value, index)};
    const Signature& signature = model_.signature;
    if (!has(signature.inputs, layer.past_value) || !has(signature.outputs, layer.present_key) ||
        !has(signature.outputs, layer.present_value)) {
      return false;
    }
    for (const std::string& name : {layer.past_key, layer.past_value}) {
      if (!add_cache(*find(signature.inputs, name), index == 0 && name == layer.past_key)) return false;
    }
    decoder_.layers.push_back(std::move(layer));
    return true;
  }

  // All caches are of one shape.
  bool add_cache(const SignatureEntry& entry, bool is_first) {
    const std::vector<Dimension> dimensions = entry.type.dimensions.value_or(std::vector<Dimension>());
    constexpr std::size_t rank = 4;
    obstacle_ = fmt::format(
        "its input {} is {}, and accepted is [batch, heads, tokens, head size] of float32, float16, "
        "bfloat16 or int8 with any number of tokens, the same for each layer",
        entry.name, to_string(entry.type));
    if (dimensions.size() != rank || dimensions[2].size) return false;
    const CacheLayout found{.heads = dimensions[1].size.value_or(0),
                            .head_size = dimensions[3].size.value_or(head_size_),
                            .type = entry.type.element};
    constexpr std::array known{ElementType::float32, ElementType::float16, ElementType::bfloat16, ElementType::int8};
    const bool is_known = std::ranges::find(known, found.type) != known.end();
    if (found.heads <= 0 || found.head_size <= 0 || !is_known) return false;
    if (!is_first) return found == decoder_.cache;
    decoder_.cache = found;
    return true;
  }

  [[nodiscard]] std::string unknown_inputs() const {
    const DecoderNames& names = decoder_.names;
    std::set<std::string_view> known{names.input_ids, names.attention_mask, names.position_ids};
    for (const DecoderSignature::Layer& layer : decoder_.layers) known.insert({layer.past_key, layer.past_value});
    std::string unknown;
    for (const SignatureEntry& entry : model_.signature.inputs) {
      if (known.contains(entry.name) || !entry.required) continue;
      unknown += (unknown.empty() ? "" : ", ") + entry.name;
    }
    return unknown;
  }

  const ModelInfo& model_;
  std::int64_t head_size_;
  DecoderSignature decoder_;
  std::string obstacle_;
};

DecoderMatch match_in_folder(const ModelInfo& model) {
  const std::optional<GenaiConfig> genai =
      model.path.empty() ? std::nullopt : read_genai_config(model.path.parent_path());
  return genai ? match_decoder(model, genai->names, genai->head_size) : match_decoder(model, {}, 0);
}

}  // namespace

const std::string& DecoderSignature::past(std::size_t array) const {
  const Layer& layer = layers.at(array / 2);
  return array % 2 == 0 ? layer.past_key : layer.past_value;
}

const std::string& DecoderSignature::present(std::size_t array) const {
  const Layer& layer = layers.at(array / 2);
  return array % 2 == 0 ? layer.present_key : layer.present_value;
}

DecoderMatch match_decoder(const ModelInfo& model, const DecoderNames& names, std::int64_t head_size) {
  return Matcher(model, names, head_size).run();
}

std::optional<DecoderSignature> decoder_signature(const ModelInfo& model) {
  return match_in_folder(model).signature;
}

DecoderSignature require_decoder(const ModelInfo& model) {
  DecoderMatch match = match_in_folder(model);
  if (match.signature) return *std::move(match.signature);
  const bool makes_vectors = std::ranges::find(model.signature.outputs, "last_hidden_state", &SignatureEntry::name) !=
                             model.signature.outputs.end();
  throw Error(
      ErrorCode::invalid_model,
      fmt::format("'{}' generates no text: {}; accepted is a model with the inputs input_ids, attention_mask, "
                  "past_key_values.N.key and .value, and position_ids if it has them, and the outputs logits and "
                  "present.N.key and .value, or with the names of its genai_config.json{}",
                  model.name, match.obstacle,
                  makes_vectors ? "; 'gpux embed' makes vectors of its output last_hidden_state" : ""));
}

}  // namespace gpux::generation
