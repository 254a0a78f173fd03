#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/json_settings.h"
#include "generation/settings.h"

namespace gpux::generation {

/// A token's number, or a list of them; empty where there is no such key. Error invalid_model.
std::vector<std::uint32_t> tokens_in(const JsonSettings& file, const char* key);

/// The settings of transformers' generation_config.json, whose keys genai's `search` shares. As in transformers, those
/// of sampling do not count without do_sample. Error invalid_model, also for a setting that would choose other tokens
/// and is not supported, as num_beams and suppress_tokens. Callers set the maximum number of tokens.
Sampling sampling_in(const JsonSettings& file);

}  // namespace gpux::generation
