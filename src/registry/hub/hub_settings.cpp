#include "registry/hub/hub_settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "registry/http/url.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;

constexpr const char* default_endpoint = "https://huggingface.co";

bool is_set(const Machine& machine, const char* variable) {
  const std::string value = lower(machine.variable(variable));
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

std::string trimmed(std::string text) {
  constexpr const char* blanks = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  text.erase(std::min(text.find_last_not_of(blanks) + 1, text.size()));
  return text;
}

/// "~" alone or before "/" is the user's folder, as huggingface_hub reads these variables.
fs::path expanded(const Machine& machine, const std::string& path) {
  if (path == "~" || path.starts_with("~/")) return machine.variable("HOME") + path.substr(1);
  return path;
}

fs::path home_of_hub(const Machine& machine) {
  if (const std::string home = machine.variable("HF_HOME"); !home.empty()) return expanded(machine, home);
  if (const std::string cache = machine.variable("XDG_CACHE_HOME"); !cache.empty()) {
    return expanded(machine, cache) / "huggingface";
  }
  return fs::path(machine.variable("HOME")) / ".cache/huggingface";
}

fs::path cache_of_hub(const Machine& machine) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string path = machine.variable(name); !path.empty()) return expanded(machine, path);
  }
  return home_of_hub(machine) / "hub";
}

void read_token(const Machine& machine, HubSettings& settings) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = trimmed(machine.variable(name));
    settings.token_source = name;
    if (!settings.token.empty()) return;
  }
  settings.token_source.clear();
  if (is_set(machine, "HF_HUB_DISABLE_IMPLICIT_TOKEN")) return;
  const std::string named = machine.variable("HF_TOKEN_PATH");
  const fs::path file = named.empty() ? home_of_hub(machine) / "token" : expanded(machine, named);
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  constexpr std::uint64_t limit_bytes = 4096;
  settings.token = trimmed(read_file(file, limit_bytes));
  settings.token_source = file.string();
}

}  // namespace

std::string offline_variable(const Machine& machine) {
  for (const char* name : {"GPUX_OFFLINE", "HF_HUB_OFFLINE"}) {
    if (is_set(machine, name)) return name;
  }
  return {};
}

HubSettings read_hub_settings(const Machine& machine) {
  HubSettings settings;
  settings.endpoint = trimmed(machine.variable("HF_ENDPOINT"));
  if (settings.endpoint.empty()) settings.endpoint = default_endpoint;
  try {
    settings.endpoint = parse_url(settings.endpoint).text();
  } catch (const Error& error) {
    throw error.within("HF_ENDPOINT");
  }
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  read_token(machine, settings);
  const bool is_token = std::ranges::all_of(settings.token, [](char c) { return c > ' ' && c < 0x7f; });
  if (!is_token) {
    throw Error(ErrorCode::usage, fmt::format("the token of {} contains blanks or other characters that no token has",
                                              in_quotes(settings.token_source)));
  }
  settings.cache = cache_of_hub(machine);
  settings.offline_variable = offline_variable(machine);
  return settings;
}

}  // namespace gpux::registry
