#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpux/generator.h"

namespace gpux::generation {

/// How the next token is chosen from the logits: GenerationSettings with the model's own in place of what was left out.
struct Sampling {
  float temperature = 0;    ///< 0: the token with the highest logit
  std::uint32_t top_k = 0;  ///< 0: all
  float top_p = 1;          ///< 1: all
  float min_p = 0;          ///< 0: all
  float typical_p = 1;      ///< 1: all
  float repetition_penalty = 1;
  std::size_t repetition_window = 0;  ///< of the last tokens; 0: all
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<std::uint32_t, float>> logit_bias;
  std::uint64_t seed = 0;
};

/// Checks the ranges of the settings. Error usage that names the setting.
void check(const GenerationSettings& settings);

/// Defaults of a model, from its generation_config.json and config.json.
struct ModelDefaults {
  std::vector<std::uint32_t> end_tokens;
  Sampling sampling;  ///< greedy unless do_sample is true
};

/// The settings, and the model's where they are empty. `seed` is used where they have none. A temperature below 1e-5 is
/// 0.
Sampling resolve(const GenerationSettings& settings, const ModelDefaults& defaults, std::uint64_t seed);

/// Sets the temperature to 1 where neither the settings nor the model's defaults have one, and the client asks for what
/// only sampling gives: several answers, or `top_k` or `top_p` that leave more than one candidate and not all.
void sample_where_asked(GenerationSettings& settings, std::size_t answers, const ModelDefaults& defaults);

}  // namespace gpux::generation
