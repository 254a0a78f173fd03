#include "generation/generation_config.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

std::uint32_t token_in(const JsonSettings& file, const char* key, const JsonSettings::Json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    file.refuse_value(key, value, "a token's number, or a list of such");
  }
  return value.get<std::uint32_t>();
}

float number_in(const JsonSettings& file, const char* key, float otherwise) {
  const JsonSettings::Json* value = file.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) file.refuse_value(key, *value, "a number");
  return value->get<float>();
}

std::uint32_t top_k_in(const JsonSettings& file) {
  const std::uint64_t count = file.count("top_k").value_or(0);
  constexpr std::uint64_t limit = std::numeric_limits<std::uint32_t>::max();
  if (count > limit) file.refuse_value("top_k", count, fmt::format("up to {}", limit));
  return static_cast<std::uint32_t>(count);
}

/// A setting that is accepted with the number that makes no difference, with null, false, and an empty list or object.
struct UnsupportedSetting {
  const char* key;
  std::optional<double> neutral = std::nullopt;
  bool is_of_sampling = false;
};

constexpr std::array unsupported_settings{
    UnsupportedSetting{"num_beams", 1},
    UnsupportedSetting{"num_beam_groups", 1},
    UnsupportedSetting{"penalty_alpha", 0},
    UnsupportedSetting{"diversity_penalty", 0},
    UnsupportedSetting{"dola_layers"},
    UnsupportedSetting{"no_repeat_ngram_size", 0},
    UnsupportedSetting{"encoder_no_repeat_ngram_size", 0},
    UnsupportedSetting{"encoder_repetition_penalty", 1},
    UnsupportedSetting{"min_length", 0},
    UnsupportedSetting{"min_new_tokens", 0},
    UnsupportedSetting{"guidance_scale", 1},
    UnsupportedSetting{"bad_words_ids"},
    UnsupportedSetting{"force_words_ids"},
    UnsupportedSetting{"constraints"},
    UnsupportedSetting{"sequence_bias"},
    UnsupportedSetting{"suppress_tokens"},
    UnsupportedSetting{"begin_suppress_tokens"},
    UnsupportedSetting{"forced_bos_token_id"},
    UnsupportedSetting{"forced_eos_token_id"},
    UnsupportedSetting{"exponential_decay_length_penalty"},
    UnsupportedSetting{"stop_strings"},
    UnsupportedSetting{"token_healing"},
    UnsupportedSetting{"watermarking_config"},
    UnsupportedSetting{"top_h", 0, true},
    UnsupportedSetting{"epsilon_cutoff", 0, true},
    UnsupportedSetting{"eta_cutoff", 0, true},
};

void require_supported(const JsonSettings& file, bool samples) {
  for (const auto& [key, neutral, is_of_sampling] : unsupported_settings) {
    const JsonSettings::Json* value = file.find(key);
    if (value == nullptr || (is_of_sampling && !samples)) continue;
    const bool is_neutral = value->is_number()    ? value->get<double>() == neutral.value_or(NAN)
                            : value->is_boolean() ? !value->get<bool>()
                                                  : value->is_structured() && value->empty();
    if (!is_neutral) file.refuse_value(key, *value, neutral ? fmt::format("null, {}", *neutral) : "null");
  }
}

}  // namespace

std::vector<std::uint32_t> tokens_in(const JsonSettings& file, const char* key) {
  std::vector<std::uint32_t> tokens;
  const JsonSettings::Json* value = file.find(key);
  if (value == nullptr) return tokens;
  if (!value->is_array()) return {token_in(file, key, *value)};
  for (const JsonSettings::Json& one : *value) tokens.push_back(token_in(file, key, one));
  return tokens;
}

Sampling sampling_in(const JsonSettings& file) {
  const bool samples = file.flag("do_sample", false);
  require_supported(file, samples);
  Sampling sampling;
  sampling.repetition_penalty = number_in(file, "repetition_penalty", 1);
  if (samples) {
    sampling.temperature = number_in(file, "temperature", 1);
    sampling.top_k = top_k_in(file);
    sampling.top_p = number_in(file, "top_p", 1);
    sampling.min_p = number_in(file, "min_p", 0);
    sampling.typical_p = number_in(file, "typical_p", 1);
  }
  GenerationSettings checked;
  checked.temperature = sampling.temperature;
  checked.top_p = sampling.top_p;
  checked.min_p = sampling.min_p;
  checked.typical_p = sampling.typical_p;
  checked.repetition_penalty = sampling.repetition_penalty;
  try {
    check(checked);
  } catch (const Error& error) {
    file.refuse(error.message());
  }
  return sampling;
}

}  // namespace gpux::generation
