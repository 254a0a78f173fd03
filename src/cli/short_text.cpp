#include "cli/short_text.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/utf8.h"

namespace gpux::cli {

std::string beginning_of(const std::string& text) {
  constexpr std::size_t max_characters = 80;
  const std::string line = one_line(text);
  std::size_t at = 0;
  for (std::size_t count = 0; count < max_characters && at < line.size(); ++count) {
    at += std::max<std::size_t>(utf8_character(std::string_view(line).substr(at)), 1);
  }
  return at == line.size() ? line : line.substr(0, at) + "…";
}

}  // namespace gpux::cli
