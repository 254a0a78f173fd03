#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace gpux {

/// The name of a stored model: "digits:1.0.0".
struct Reference {
  std::string name;
  std::string tag = "latest";

  /// The reference as text: "NAME:TAG".
  [[nodiscard]] std::string text() const { return name + ":" + tag; }

  auto operator<=>(const Reference&) const = default;
};

/// Reads NAME[:TAG]; NAME alone means its tag latest. A name is of lower-case letters and digits with '.', '_', '__',
/// '-' or '/' between them, its first part may be HOST:PORT; a tag is of up to 128 letters, digits, '.', '_', '-'.
/// Error usage for anything else.
Reference parse_reference(std::string_view text);

/// The digits in an id as `gpux images` prints it: the first 4 to 64 of a package's digest, with or without "sha256:".
/// Empty for anything else.
std::string_view id_digits(std::string_view text) noexcept;

}  // namespace gpux
