#include "checkpoint/setting_files.h"

#include <algorithm>
#include <array>
#include <system_error>

#include <fmt/format.h>

#include "base/format_message.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/transformer_settings.h"
#include "gpux/error.h"

namespace gpux::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::array files{"added_tokens.json",
                           "config.json",
                           "config_sentence_transformers.json",
                           "genai_config.json",
                           "generation_config.json",
                           "modules.json",
                           transformer_settings_files[0],
                           transformer_settings_files[1],
                           transformer_settings_files[2],
                           transformer_settings_files[3],
                           transformer_settings_files[4],
                           transformer_settings_files[5],
                           transformer_settings_files[6],
                           "special_tokens_map.json",
                           "tokenizer.json",
                           "tokenizer_config.json",
                           "artifact.metadata",
                           "chat_template.jinja",
                           "chat_template.json",
                           "additional_chat_templates/tool_use.jinja"};

}  // namespace

std::span<const char* const> setting_files() noexcept {
  return files;
}

std::vector<Module> modules_in(const fs::path& folder) {
  return read_modules(JsonSettings(folder / modules_file, JsonSettings::Json::value_t::array));
}

// What is read again where the model runs: the settings of the modules behind the transformer, and the weights of
// dense layers.
std::vector<std::string> module_files_in(const fs::path& folder, const std::vector<Module>& modules) {
  std::vector<std::string> found;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    if (modules[i].folder.empty()) continue;
    std::vector<std::string> names{"config.json"};
    if (modules[i].kind == "Dense") names.emplace_back("model.safetensors");
    for (const std::string& name : names) {
      std::error_code unreadable;
      std::string file = modules[i].folder + "/" + name;
      if (fs::is_regular_file(folder / file, unreadable)) found.push_back(std::move(file));
    }
  }
  return found;
}

void require_tokenizer(const fs::path& folder, const fs::path& transformer_folder) {
  std::error_code unreadable;
  for (const fs::path& place : {transformer_folder, folder}) {
    if (fs::is_regular_file(place / "tokenizer.json", unreadable)) return;
  }
  throw Error(ErrorCode::not_found, format_message("'{}' has no tokenizer.json", file_at(folder)));
}

std::vector<std::string> setting_files_in(const fs::path& folder) {
  std::vector<std::string> found;
  const auto look_in = [&](const fs::path& place) {
    for (const char* name : files) {
      std::error_code unreadable;
      if (!fs::is_regular_file(folder / place / name, unreadable)) continue;
      std::string file = (place / name).generic_string();
      if (std::find(found.begin(), found.end(), file) == found.end()) found.push_back(std::move(file));
    }
  };
  look_in("");
  const std::vector<Module> modules = modules_in(folder);
  if (!modules.empty() && !modules.front().folder.empty()) look_in(modules.front().folder);
  for (std::string& file : module_files_in(folder, modules)) {
    if (std::find(found.begin(), found.end(), file) == found.end()) found.push_back(std::move(file));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace gpux::checkpoint
