#pragma once

#include <cstddef>
#include <string_view>

namespace gpux {

/// The first bytes of a text, `max_bytes` or up to three fewer, so that no character of UTF-8 is cut.
[[nodiscard]] constexpr std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes) noexcept {
  if (text.size() <= max_bytes) return text;
  std::size_t length = max_bytes;
  for (int i = 0; i < 3 && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80; ++i) --length;
  return text.substr(0, length);
}

}  // namespace gpux
