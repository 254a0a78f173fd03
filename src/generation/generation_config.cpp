#include "generation/generation_config.h"

#include <limits>

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
  Sampling sampling;
  sampling.repetition_penalty = number_in(file, "repetition_penalty", 1);
  if (!file.flag("do_sample", false)) return sampling;
  sampling.temperature = number_in(file, "temperature", 1);
  sampling.top_k = static_cast<std::uint32_t>(file.count("top_k").value_or(0));
  sampling.top_p = number_in(file, "top_p", 1);
  sampling.min_p = number_in(file, "min_p", 0);
  sampling.typical_p = number_in(file, "typical_p", 1);
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
