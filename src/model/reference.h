#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace gpux {

/// The name of a stored model: "digits:1.0.0".
struct Reference {
  std::string name;
  std::string tag = "latest";

  /// "NAME:TAG"
  [[nodiscard]] std::string text() const { return name + ":" + tag; }

  auto operator<=>(const Reference&) const = default;
};

/// Reads NAME[:TAG]; NAME alone means its tag latest. A name is of lower-case letters and digits with '.', '_', '__',
/// '-' or '/' between them, its first part may be HOST:PORT; a tag is of up to 128 letters, digits, '.', '_', '-'.
/// Error usage for anything else.
Reference parse_reference(std::string_view text);

}  // namespace gpux
