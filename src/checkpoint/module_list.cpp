#include "checkpoint/module_list.h"

#include <filesystem>

#include <fmt/format.h>

namespace gpux::checkpoint {
namespace {

using Json = JsonSettings::Json;

std::string folder_at(const JsonSettings& modules, const std::string& path) {
  const std::filesystem::path relative = std::filesystem::path(path).lexically_normal();
  if (relative.is_absolute() || (!relative.empty() && *relative.begin() == "..")) {
    modules.refuse(fmt::format("the path '{}' leads out of the folder", path));
  }
  std::string folder = relative.generic_string();
  if (folder.ends_with('/')) folder.pop_back();
  return folder == "." ? std::string() : folder;
}

}  // namespace

std::vector<Module> read_modules(const JsonSettings& modules) {
  std::vector<Module> found;
  for (const Json& entry : modules.json()) {
    const auto text = [&](const char* key) {
      const auto value = entry.is_object() ? entry.find(key) : entry.end();
      if (!entry.is_object() || value == entry.end() || !value->is_string()) {
        modules.refuse(fmt::format("each module needs '{}', a text", key));
      }
      return value->get<std::string>();
    };
    const std::string type = text("type");
    found.push_back({type.substr(type.rfind('.') + 1), folder_at(modules, text("path"))});
  }
  return found;
}

}  // namespace gpux::checkpoint
