#include "generation/model_files.h"

#include <cmath>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "gpux/error.h"
#include "importer/json_settings.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;

std::uint32_t token_in(const JsonSettings& file, const char* key, const JsonSettings::Json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    file.refuse_value(key, value, "a token's number, or a list of such");
  }
  return value.get<std::uint32_t>();
}

std::vector<std::uint32_t> tokens_in(const JsonSettings& file, const char* key) {
  std::vector<std::uint32_t> tokens;
  const JsonSettings::Json* value = file.find(key);
  if (value == nullptr) return tokens;
  if (!value->is_array()) return {token_in(file, key, *value)};
  for (const JsonSettings::Json& one : *value) tokens.push_back(token_in(file, key, one));
  return tokens;
}

float number_in(const JsonSettings& file, const char* key, float otherwise) {
  const JsonSettings::Json* value = file.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) file.refuse_value(key, *value, "a number");
  return value->get<float>();
}

// As transformers takes it: without do_sample the other settings of sampling do not count.
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

}  // namespace

ModelFiles read_model_files(const fs::path& folder) {
  ModelFiles files;
  files.tokenizer = folder / "tokenizer.json";
  std::error_code unreadable;
  if (!fs::is_regular_file(files.tokenizer, unreadable)) {
    throw Error(ErrorCode::not_found, fmt::format("'{}' has no tokenizer.json", folder.string()));
  }
  const JsonSettings config(folder / "config.json"), generation(folder / "generation_config.json");
  const auto positions = config.count("max_position_embeddings");
  if (!positions || *positions == 0) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("{} has no max_position_embeddings: the length of the context is unknown", config.file().string()));
  }
  files.context_length = *positions;
  files.defaults.end_tokens = tokens_in(generation, "eos_token_id");
  if (files.defaults.end_tokens.empty()) files.defaults.end_tokens = tokens_in(config, "eos_token_id");
  files.defaults.sampling = sampling_in(generation);
  return files;
}

}  // namespace gpux::generation
