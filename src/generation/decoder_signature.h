#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generation/genai_config.h"
#include "generation/key_value_cache.h"
#include "gpux/model_info.h"

namespace gpux::generation {

/// The inputs and outputs of a decoder: those of onnxruntime-genai and Optimum.
struct DecoderSignature {
  DecoderNames names;

  struct Layer {
    std::string past_key, past_value, present_key, present_value;
  };

  std::vector<Layer> layers;
  CacheLayout cache;
  bool has_position_ids = false;  ///< an input, int64[batch, sequence]
  /// Keys and values are written behind those of earlier tokens, in the same memory (GroupQueryAttention). Otherwise
  /// the outputs are all of them anew.
  bool writes_in_place = false;

  /// The names of an array of the cache: the keys and the values of each layer.
  [[nodiscard]] const std::string& past(std::size_t array) const;
  [[nodiscard]] const std::string& present(std::size_t array) const;
};

/// A decoder, or why a model is none.
struct DecoderMatch {
  std::optional<DecoderSignature> signature;
  std::string obstacle;  ///< one clause; empty where there is a signature
};

/// Finds the parts of a decoder among the inputs and outputs of a model. `head_size`: of its keys and values, where the
/// graph leaves it free; 0: not known. Pure.
DecoderMatch match_decoder(const ModelInfo& model, const DecoderNames& names, std::int64_t head_size);

/// Empty where the model is no decoder with keys and values as inputs. A genai_config.json beside the file names them.
/// Error invalid_model: that file is of a layout that is not supported.
std::optional<DecoderSignature> decoder_signature(const ModelInfo& model);

/// Matches the model's inputs and outputs to those of a decoder. Error invalid_model, with the reason, if it is none.
DecoderSignature require_decoder(const ModelInfo& model);

}  // namespace gpux::generation
