#include "onnx/text.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "base/utf8.h"

namespace gpux::onnx {

std::string to_utf8(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = utf8_character(bytes);
    text += length == 0 ? std::string_view("\xef\xbf\xbd") : bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string quote(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string text = "'";
  while (!name.empty() && text.size() <= longest) {
    const std::size_t length = utf8_character(name);
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
