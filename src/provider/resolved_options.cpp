#include "provider/resolved_options.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::provider {

void refuse(const ProviderRow& row, const std::string& name, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("provider {}: option '{}' {}", row.id, name, why));
}

const OptionRow* find_option(const ProviderRow& row, std::string_view name) {
  const auto found = std::find_if(row.options.begin(), row.options.end(),
                                  [&](const OptionRow& option) { return option.name == name; });
  return found == row.options.end() ? nullptr : &*found;
}

void put(ResolvedOptions& options, std::string name, std::string value) {
  for (auto& [key, old] : options.passed) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  options.passed.emplace_back(std::move(name), std::move(value));
}

bool has(const ResolvedOptions& options, std::string_view name) {
  return std::any_of(options.passed.begin(), options.passed.end(),
                     [&](const auto& option) { return option.first == name; });
}

void put_unless_said(ResolvedOptions& options, std::string name, std::string value) {
  if (!has(options, name)) put(options, std::move(name), std::move(value));
}

std::string_view value_of(const ResolvedOptions& options, std::string_view name) {
  const auto found = std::ranges::find_if(options.passed, [&](const auto& option) { return option.first == name; });
  return found == options.passed.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace gpux::provider
