#include "generation/decoder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

const SignatureEntry* find(const std::vector<SignatureEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &SignatureEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

Tensor whole_numbers(const Shape& shape, std::span<const std::int64_t> values) {
  return Tensor::of<std::int64_t>(shape, values);
}

}  // namespace

std::optional<DecoderSignature> decoder_signature(const Signature& signature) {
  if (find(signature.inputs, "input_ids") == nullptr || find(signature.inputs, "attention_mask") == nullptr ||
      find(signature.outputs, "logits") == nullptr) {
    return std::nullopt;
  }
  DecoderSignature decoder;
  for (std::size_t i = 0;; ++i) {
    DecoderSignature::Layer layer{fmt::format("past_key_values.{}.key", i), fmt::format("past_key_values.{}.value", i),
                                  fmt::format("present.{}.key", i), fmt::format("present.{}.value", i)};
    const SignatureEntry* key = find(signature.inputs, layer.past_key);
    if (key == nullptr) break;
    const std::vector<Dimension> dimensions = key->type.dimensions.value_or(std::vector<Dimension>());
    constexpr std::size_t rank = 4;  // batch, heads, tokens, head size
    if (dimensions.size() != rank) return std::nullopt;
    decoder.kv_heads = dimensions[1].size.value_or(0);
    decoder.head_size = dimensions[3].size.value_or(0);
    const bool is_known =
        find(signature.inputs, layer.past_value) != nullptr && find(signature.outputs, layer.present_key) != nullptr &&
        find(signature.outputs, layer.present_value) != nullptr && decoder.kv_heads > 0 && decoder.head_size > 0;
    if (!is_known) return std::nullopt;
    decoder.cache_type = key->type.element;
    decoder.layers.push_back(std::move(layer));
  }
  if (decoder.layers.empty()) return std::nullopt;
  return decoder;
}

TokenCache::TokenCache(const DecoderSignature& signature) {
  for (std::size_t i = 0; i < 2 * signature.layers.size(); ++i) {
    values_.push_back(Tensor::allocate(signature.cache_type, {1, signature.kv_heads, 0, signature.head_size}));
  }
}

DecoderSignature require_decoder(const ModelInfo& model) {
  std::optional<DecoderSignature> signature = decoder_signature(model.signature);
  if (signature) return *std::move(signature);
  throw Error(ErrorCode::invalid_model,
              fmt::format("'{}' generates no text: accepted is a model with the inputs input_ids, attention_mask and "
                          "past_key_values.N.key and .value, and the outputs logits and present.N.key and .value",
                          model.name));
}

Decoder::Decoder(Runtime runtime) : runtime_(std::move(runtime)), signature_(require_decoder(runtime_.info())) {}

Tensor Decoder::append(std::span<const std::uint32_t> tokens, TokenCache& cache, const std::stop_token& stop) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::vector<std::int64_t> ids(tokens.begin(), tokens.end());
  const std::vector<std::int64_t> mask(cache.size_ + tokens.size(), 1);
  NamedValues inputs{{"input_ids", whole_numbers({1, count}, ids)},
                     {"attention_mask", whole_numbers({1, static_cast<std::int64_t>(mask.size())}, mask)}};
  for (std::size_t i = 0; i < signature_.layers.size(); ++i) {
    inputs.emplace_back(signature_.layers[i].past_key, cache.values_[2 * i]);
    inputs.emplace_back(signature_.layers[i].past_value, cache.values_[2 * i + 1]);
  }
  InferOptions options;
  options.stop = stop;
  options.outputs.emplace_back("logits");
  for (const DecoderSignature::Layer& layer : signature_.layers) {
    options.outputs.push_back(layer.present_key);
    options.outputs.push_back(layer.present_value);
  }
  const NamedValues outputs = runtime_.infer(inputs, options);
  for (std::size_t i = 0; i < cache.values_.size(); ++i) cache.values_[i] = *outputs[i + 1].second.tensor();
  cache.size_ = mask.size();
  return *outputs.front().second.tensor();
}

std::uint64_t Decoder::bytes_per_token() const noexcept {
  const std::uint64_t elements = 2 * signature_.layers.size() * static_cast<std::uint64_t>(signature_.kv_heads) *
                                 static_cast<std::uint64_t>(signature_.head_size);
  return elements * Tensor::allocate(signature_.cache_type, {1}).byte_size();
}

}  // namespace gpux::generation
