#include "onnx/text.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace gpux::onnx {
namespace {

/// Bytes of the UTF-8 character that `bytes` begins with, 0 where it begins with none.
std::size_t character_length(std::string_view bytes) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || bytes.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) >= 0xa0)) return 0;
  if ((lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) >= 0x90)) return 0;
  return length;
}

}  // namespace

bool is_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = character_length(bytes);
    text += length == 0 ? std::string_view("\xef\xbf\xbd") : bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string quote(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string text = "'";
  while (!name.empty() && text.size() <= longest) {
    const std::size_t length = character_length(name);
    const auto first = static_cast<std::uint8_t>(name[0]);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      text += fmt::format("\\x{:02x}", first);
    } else {
      text += name.substr(0, length);
    }
    name.remove_prefix(length == 0 ? 1 : length);
  }
  if (!name.empty()) text += "…";
  return text + "'";
}

}  // namespace gpux::onnx
