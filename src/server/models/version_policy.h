#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::server {

/// Which versions of a model in a repository are served, side by side.
struct VersionPolicy {
  enum class Kind : std::uint8_t { latest, all, specific };

  Kind kind = Kind::latest;
  std::size_t count = 1;              ///< latest: so many of the highest
  std::vector<std::string> versions;  ///< specific

  bool operator==(const VersionPolicy&) const = default;
};

/// Reads "latest", "latest:2", "all", "1,3". Error usage that names the flag.
VersionPolicy read_version_policy(std::string_view text);

/// Of the versions that are there, those that are served, in the order of their numbers. Pure.
std::vector<std::string> served_versions(std::vector<std::string> there, const VersionPolicy& policy);

}  // namespace gpux::server
