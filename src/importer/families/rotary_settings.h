#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/config_reader.h"
#include "importer/architecture.h"

namespace gpux::importer {

/// Defaults of a family for rotary positions that config.json does not set.
struct RotaryDefaults {
  float theta = 10000;
  std::int64_t head_size = 0;
  std::int64_t max_positions = 0;    ///< max_position_embeddings
  const char* layer_type = nullptr;  ///< "sliding_attention": its object in rope_parameters
  bool scales = true;                ///< rope_scaling counts for these layers
};

/// Frequencies by rope_parameters, or rope_scaling and rope_theta of older files, as transformers' modeling_rope_utils
/// computes them: default, linear, dynamic (up to max_positions, where it is the default), yarn, llama3, and ntk of
/// the GTE family. Error invalid_config: another type, such as longrope, or a missing value.
Rotary read_rotary(const checkpoint::ConfigReader& config, const RotaryDefaults& defaults);

/// The rotary positions of a model that has others for long texts (longrope).
struct LongRotary {
  Rotary short_texts{};  ///< for texts of up to original_positions tokens
  Rotary long_texts{};   ///< for longer texts
  std::int64_t original_positions = 0;
};

/// Reads rope_parameters or rope_scaling with the type longrope, "su" or "yarn", as Phi-3's files have them; empty:
/// there is none of these, and read_rotary() reads it. Error invalid_config: a missing value, or not one factor for
/// each frequency.
std::optional<LongRotary> read_long_rotary(const checkpoint::ConfigReader& config, const RotaryDefaults& defaults);

/// frequencies[i] = theta^(-2 i / dimensions), without scaling.
Rotary plain_rotary(float theta, std::int64_t dimensions);

}  // namespace gpux::importer
