#include "plugin/session_settings.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <sched.h>

#include "plugin/provider_description.h"

namespace gpux_cpu {
namespace {

constexpr std::string_view precision_option = "precision", threads_entry = "gpux.threads";

// Session configuration holds the provider's options under its name in lower case.
std::string option_prefix() {
  std::string prefix = "ep.";
  for (const char letter : std::string_view(provider_description().name)) {
    prefix.push_back(letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter);
  }
  return prefix + ".";
}

std::size_t precision_of(const std::string& text) {
  const auto names = provider_description().precisions;
  const auto name = std::ranges::find(names, text);
  if (name != names.end()) return static_cast<std::size_t>(name - names.begin());
  std::string accepted;
  for (const std::string_view one : names) accepted.append(accepted.empty() ? "" : ", ").append(one);
  throw Ort::Exception("option 'precision' is '" + text + "'; accepted: " + accepted, ORT_INVALID_ARGUMENT);
}

std::size_t threads_of(const std::string& text) {
  constexpr std::size_t most = 65536;
  std::size_t threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error == std::errc() && end == text.data() + text.size() && threads >= 1 && threads <= most) return threads;
  throw Ort::Exception("session configuration entry 'gpux.threads' is '" + text + "'; accepted: 1 to 65536",
                       ORT_INVALID_ARGUMENT);
}

std::size_t processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

std::unordered_map<std::string, std::string> session_entries(const OrtSessionOptions* options) {
  OrtKeyValuePairs* entries = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &entries));
  return Ort::KeyValuePairs(entries).GetKeyValuePairs();
}

SessionSettings session_settings(const OrtSessionOptions* options) {
  SessionSettings settings{.precision = std::nullopt, .threads = processors()};
  const std::string prefix = option_prefix();
  for (const auto& [key, value] : session_entries(options)) {
    if (key == threads_entry) settings.threads = threads_of(value);
    if (!key.starts_with(prefix)) continue;
    const std::string option = key.substr(prefix.size());
    if (option != precision_option) {
      throw Ort::Exception(
          std::string(provider_description().name) + " knows no option '" + option + "'; accepted: precision",
          ORT_INVALID_ARGUMENT);
    }
    if (!value.empty()) settings.precision = precision_of(value);
  }
  return settings;
}

}  // namespace gpux_cpu
