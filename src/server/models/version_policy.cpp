#include "server/models/version_policy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "server/models/version_order.h"

namespace gpux::server {
namespace {

std::optional<std::size_t> number_from(std::string_view text) {
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

VersionPolicy read_version_policy(std::string_view text) {
  const auto refuse = [&] {
    throw Error(ErrorCode::usage,
                fmt::format("--version-policy is '{}'; accepted: latest, latest:2, all, or versions as 1,3", text));
  };
  constexpr std::string_view latest = "latest:";
  if (text == "latest") return {};
  if (text == "all") return {.kind = VersionPolicy::Kind::all, .count = 0, .versions = {}};
  if (text.starts_with(latest)) {
    const std::optional<std::size_t> count = number_from(text.substr(latest.size()));
    if (!count || *count == 0) refuse();
    return {.kind = VersionPolicy::Kind::latest, .count = count.value_or(1), .versions = {}};
  }
  VersionPolicy policy{.kind = VersionPolicy::Kind::specific, .count = 0, .versions = split(text, ',')};
  if (policy.versions.empty()) refuse();
  for (const std::string& version : policy.versions) {
    if (!number_from(version)) refuse();
  }
  return policy;
}

std::vector<std::string> served_versions(std::vector<std::string> there, const VersionPolicy& policy) {
  std::ranges::sort(there, [](const std::string& a, const std::string& b) { return version_less(a, b); });
  if (policy.kind == VersionPolicy::Kind::latest && there.size() > policy.count) {
    there.erase(there.begin(), there.end() - static_cast<std::ptrdiff_t>(policy.count));
  }
  if (policy.kind == VersionPolicy::Kind::specific) {
    std::erase_if(there, [&](const std::string& version) {
      return std::ranges::find(policy.versions, version) == policy.versions.end();
    });
  }
  return there;
}

}  // namespace gpux::server
