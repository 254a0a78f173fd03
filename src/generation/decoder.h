#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/runtime.h"

namespace gpux::generation {

/// The inputs and outputs of a decoder: those of onnxruntime-genai and Optimum.
struct DecoderSignature {
  struct Layer {
    std::string past_key, past_value, present_key, present_value;
  };

  std::vector<Layer> layers;
  std::int64_t kv_heads = 0, head_size = 0;
  ElementType cache_type = ElementType::float32;
};

/// Empty where the model is no decoder with keys and values as inputs.
std::optional<DecoderSignature> decoder_signature(const Signature& signature);

/// Error invalid_model where it is none.
DecoderSignature require_decoder(const ModelInfo& model);

/// The tokens of a text, and their keys and values in each layer.
class TokenCache {
 public:
  explicit TokenCache(const DecoderSignature& signature);

  /// Tokens whose keys and values are here.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  friend class Decoder;
  std::size_t size_ = 0;
  std::vector<Tensor> values_;  // key and value of each layer
};

/// A decoder in a session.
class Decoder {
 public:
  /// Error invalid_model: it is no decoder.
  explicit Decoder(Runtime runtime);

  /// Appends the tokens to the cache. The logits of the last one, float32[vocabulary], in memory of their own.
  /// Errors of Runtime::infer(); interrupted.
  [[nodiscard]] Tensor append(std::span<const std::uint32_t> tokens, TokenCache& cache,
                              const std::stop_token& stop) const;

  [[nodiscard]] const DecoderSignature& signature() const noexcept { return signature_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// Bytes of the keys and values of a token.
  [[nodiscard]] std::uint64_t bytes_per_token() const noexcept;

 private:
  Runtime runtime_;
  DecoderSignature signature_;
};

}  // namespace gpux::generation
