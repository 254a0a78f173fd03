#include "generation/model_files.h"

#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "checkpoint/json_settings.h"
#include "generation/genai_config.h"
#include "generation/generation_config.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;

// Hugging Face's folders have the ONNX file in a folder of its own.
fs::path settings_folder_of(const fs::path& folder) {
  std::error_code unreadable;
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const bool is_beside = fs::is_regular_file(folder / "tokenizer.json", unreadable) || whole.filename() != "onnx";
  return is_beside ? folder : whole.parent_path();
}

std::size_t context_length_of(const JsonSettings& config) {
  auto positions = config.count("max_position_embeddings");
  if (!positions) positions = config.count("n_positions");  // GPT-2
  if (positions && *positions != 0) return *positions;
  throw Error(ErrorCode::invalid_model,
              format_message("{} has no max_position_embeddings, and there is no genai_config.json: the length of the "
                             "context is unknown",
                             file_at(config.file())));
}

}  // namespace

ModelFiles read_model_files(const fs::path& folder) {
  ModelFiles files;
  const fs::path settings = settings_folder_of(folder);
  files.tokenizer = settings / "tokenizer.json";
  std::error_code unreadable;
  if (!fs::is_regular_file(files.tokenizer, unreadable)) {
    throw Error(ErrorCode::not_found, format_message("'{}' has no tokenizer.json", file_at(folder)));
  }
  if (std::optional<GenaiConfig> genai = read_genai_config(folder)) {
    files.context_length = genai->context_length;
    files.defaults = std::move(genai->defaults);
    return files;
  }
  const JsonSettings config(settings / "config.json"), generation(settings / "generation_config.json");
  files.context_length = context_length_of(config);
  files.defaults.end_tokens = tokens_in(generation, "eos_token_id");
  if (files.defaults.end_tokens.empty()) files.defaults.end_tokens = tokens_in(config, "eos_token_id");
  files.defaults.sampling = sampling_in(generation);
  return files;
}

}  // namespace gpux::generation
