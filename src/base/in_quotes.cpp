#include "base/in_quotes.h"

#include <fmt/format.h>

#include "base/utf8_prefix.h"

namespace gpux {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t limit = 60;
  const std::string_view shown = utf8_prefix(text, limit);
  std::string result = "'";
  for (const char c : shown) {
    if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      result += c;
    }
  }
  if (shown.size() < text.size()) result += "…";
  return result + "'";
}

}  // namespace gpux
