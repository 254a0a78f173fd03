#include "checkpoint/decoder_folder.h"

#include <string_view>
#include <system_error>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

namespace fs = std::filesystem;

namespace {

// GPT-2's class is of older days.
bool is_text_generator(std::string_view class_name) {
  return class_name.ends_with("ForCausalLM") || class_name == "GPT2LMHeadModel";
}

}  // namespace

bool is_decoder_folder(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::exists(folder / "modules.json", unreadable)) return false;
  if (fs::exists(folder / "genai_config.json", unreadable)) return true;
  const JsonSettings config(folder / "config.json");
  const JsonSettings::Json* names = config.find("architectures");
  return names != nullptr && names->is_array() && !names->empty() && names->front().is_string() &&
         is_text_generator(names->front().get_ref<const std::string&>());
}

}  // namespace gpux::checkpoint
