#pragma once

#include <string>
#include <string_view>

namespace gpux::server {

/// Orders versions by the numbers in them: "2" before "10", "1.9" before "1.10".
bool version_less(std::string_view left, std::string_view right) noexcept;

/// version_less() as the comparator of std::map and std::set.
struct VersionLess {
  bool operator()(const std::string& left, const std::string& right) const noexcept {
    return version_less(left, right);
  }
};

}  // namespace gpux::server
