#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "generation/settings.h"

namespace gpux::generation {

/// The names of a decoder's inputs and outputs. Those of layers have "%d" for the layer's number.
struct DecoderNames {
  std::string input_ids = "input_ids", attention_mask = "attention_mask", position_ids = "position_ids";
  std::string logits = "logits";
  std::string past_key = "past_key_values.%d.key", past_value = "past_key_values.%d.value";
  std::string present_key = "present.%d.key", present_value = "present.%d.value";

  bool operator==(const DecoderNames&) const = default;
};

/// The name of a layer: `pattern` with the number in place of "%d".
std::string name_of_layer(const std::string& pattern, std::size_t layer);

/// The settings of a model with one decoder in genai_config.json of onnxruntime-genai.
struct GenaiConfig {
  std::string file;  ///< of the decoder, relative to the folder
  DecoderNames names;
  std::int64_t head_size = 0;  ///< 0: not given
  std::size_t context_length = 0;
  ModelDefaults defaults;
};

/// Empty where the folder has none. Errors invalid_model: a value of another type, or a model that is not one decoder
/// over tokens: a pipeline of several files, encoders beside it, a cache that keeps a window alone.
std::optional<GenaiConfig> read_genai_config(const std::filesystem::path& folder);

}  // namespace gpux::generation
