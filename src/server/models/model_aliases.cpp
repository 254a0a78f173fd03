#include "server/models/model_aliases.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "store/reference.h"

namespace gpux::server {
namespace {

template <typename Predicate>
const AliasedVersion* find_only(std::span<const AliasedVersion> versions, std::string_view requested,
                                const Predicate& has_alias) {
  std::vector<const AliasedVersion*> found;
  for (const AliasedVersion& version : versions) {
    if (has_alias(*version.aliases)) found.push_back(&version);
  }
  if (found.empty()) return nullptr;
  if (found.size() == 1) return found.front();
  std::vector<std::string> labels;
  for (const AliasedVersion* version : found) {
    labels.push_back(fmt::format("'{}' (version {})", version->name, version->version));
  }
  throw Error(ErrorCode::usage, fmt::format("'{}' means several models, use one of their names: {}",
                                            utf8_prefix(requested, 80), join(labels)));
}

}  // namespace

const AliasedVersion* find_alias(std::span<const AliasedVersion> versions, std::string_view requested) {
  const auto has_name = [&](const ModelAliases& aliases) {
    return std::ranges::find(aliases.names, requested) != aliases.names.end();
  };
  if (const AliasedVersion* named = find_only(versions, requested, has_name)) return named;
  const std::string_view digits = id_digits(requested);
  if (digits.empty()) return nullptr;
  return find_only(versions, requested,
                   [&](const ModelAliases& aliases) { return aliases.digest.starts_with(digits); });
}

}  // namespace gpux::server
