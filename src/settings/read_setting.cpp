#include "settings/read_setting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "project/project_check.h"

namespace gpux {
namespace {

constexpr unsigned max_threads = 1024;

template <typename Number>
std::optional<Number> whole_number(const std::string& text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

}  // namespace

void refuse(std::string_view text, const Source& source, std::string_view accepted) {
  const ErrorCode code = source.kind == Source::Kind::file ? ErrorCode::invalid_config : ErrorCode::usage;
  const Error error(code, fmt::format("{} is '{}'; accepted: {}", source.name, text, accepted));
  throw source.place.empty() ? error : error.within(source.place);
}

std::string read_text(const std::string& text, const Source& /*source*/) {
  return text;
}

unsigned read_number(const std::string& text, const Source& source) {
  const auto value = whole_number<unsigned>(text);
  if (!value) refuse(text, source, "a number from 0");
  return *value;
}

unsigned checked_thread_count(unsigned count, const Source& source) {
  if (count == 0 || count > max_threads) refuse(std::to_string(count), source, "1 to 1024");
  return count;
}

unsigned read_thread_count(const std::string& text, const Source& source) {
  const auto count = whole_number<unsigned>(text);
  if (!count) refuse(text, source, "1 to 1024");
  return checked_thread_count(*count, source);
}

Strictness read_strictness(const std::string& text, const Source& source) {
  const std::string word = lower(text);
  if (word == "true" || word == "1" || word == "yes" || word == "provider") return Strictness::provider;
  if (word == "false" || word == "0" || word == "no" || word == "off") return Strictness::off;
  if (word == "nodes") return Strictness::nodes;
  refuse(text, source, "true, nodes, false");
}

std::uint64_t read_memory_size(const std::string& text, const Source& source) {
  const auto bytes = parse_memory_size(text);
  if (!bytes) refuse(text, source, "a number of bytes, or a size like 2GB");
  return *bytes;
}

std::string read_precision(const std::string& text, const Source& source) {
  std::string word = lower(text);
  static constexpr std::array<std::string_view, 7> known{"fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16", "any"};
  if (std::ranges::find(known, word) == known.end()) {
    refuse(text, source, "fp32, tf32, fp16, bf16, int8, int8-bf16, any");
  }
  return word;
}

double checked_min_cosine(double value, const Source& source) {
  if (!(value > 0 && value <= 1)) refuse(fmt::format("{}", value), source, "more than 0, at most 1");
  return value;
}

double read_min_cosine(const std::string& text, const Source& source) {
  const auto value = whole_number<double>(text);
  if (!value || !(*value > 0 && *value <= 1)) refuse(text, source, "more than 0, at most 1");
  return *value;
}

Optimization read_optimization(const std::string& text, const Source& source) {
  const auto level = optimization_from(lower(text));
  if (!level) refuse(text, source, "disabled, basic, extended, layout, all");
  return *level;
}

Isolation read_isolation(const std::string& text, const Source& source) {
  if (text == "thread") return Isolation::thread;
  if (text == "process") return Isolation::process;
  refuse(text, source, "thread, process");
}

Sandbox read_sandbox(const std::string& text, const Source& source) {
  const std::string word = lower(text);
  if (word == "off") return Sandbox::off;
  if (word == "on") return Sandbox::on;
  if (word == "strict") return Sandbox::strict;
  refuse(text, source, "on, off, strict");
}

bool read_switch(const std::string& text, const Source& source) {
  if (text == "on") return true;
  if (text == "off") return false;
  refuse(text, source, "on, off");
}

std::chrono::milliseconds read_duration(const std::string& text, const Source& source) {
  const auto limit = duration_from(text);
  if (!limit) refuse(text, source, "a time like 5s or 500ms");
  return *limit;
}

std::chrono::milliseconds read_wait(const std::string& text, const Source& source) {
  if (text == "0" || text == "0s" || text == "0ms") return std::chrono::milliseconds(0);
  const auto duration = duration_from(text);
  if (!duration) refuse(text, source, "0, or a time like 5s or 500ms");
  return *duration;
}

BatchAxis read_batch_axis(const std::string& text, const Source& source) {
  if (text == "0") return BatchAxis::zero;
  if (text == "none") return BatchAxis::none;
  refuse(text, source, "0, none");
}

namespace {

std::pair<std::string, std::string> key_and_value(const std::string& text, const Source& source, const char* form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse(text, source, form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

ProviderLibrary read_provider_library(const std::string& text, const Source& source) {
  auto [name, path] = key_and_value(text, source, "NAME=PATH");
  return {std::move(name), std::move(path)};
}

std::pair<std::string, std::string> read_entry(const std::string& text, const Source& source) {
  return key_and_value(text, source, "KEY=VALUE");
}

ProviderOptions read_provider_option(const std::string& text, const Source& source) {
  auto [key, value] = key_and_value(text, source, "[PROVIDER.]KEY=VALUE");
  std::string provider;
  if (const std::size_t dot = key.find('.'); dot != std::string::npos) {
    provider = key.substr(0, dot);
    key.erase(0, dot + 1);
  }
  return {std::move(provider), {{std::move(key), std::move(value)}}, source.name};
}

}  // namespace gpux
