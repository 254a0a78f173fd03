#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::server {

/// Aliases of one version of a model: names and the id that requests may use besides the name it is served under.
struct ModelAliases {
  std::vector<std::string> names;  ///< of the stored model that it is loaded from: "minilm:latest"
  std::string digest;              ///< of that model, 64 hexadecimal digits; empty: it is not from the store
};

/// One version of a model, with the aliases that requests may use.
struct AliasedVersion {
  std::string_view name, version;
  const ModelAliases* aliases;
};

/// The version that a request's name means, where no model is served under that name: the one with this alias, or else
/// the one with this id, in the forms of id_digits(). Null where there is none.
/// Error usage, which names them, where there are several.
const AliasedVersion* find_alias(std::span<const AliasedVersion> versions, std::string_view requested);

}  // namespace gpux::server
