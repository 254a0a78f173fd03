#include "base/in_quotes.h"

#include <fmt/format.h>

namespace gpux {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t limit = 60;
  std::size_t length = text.size();
  if (length > limit) {
    length = limit;
    // A sequence of UTF-8 stays whole.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80) --length;
  }
  std::string result = "'";
  for (const char c : text.substr(0, length)) {
    if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      result += c;
    }
  }
  if (length < text.size()) result += "…";
  return result + "'";
}

}  // namespace gpux
