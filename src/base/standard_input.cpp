#include "base/standard_input.h"

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux {

std::string read_standard_input() {
  constexpr std::size_t max_bytes = std::size_t{4} << 30;
  std::string text;
  std::array<char, 65536> buffer{};
  for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), stdin)) > 0;) {
    text.append(buffer.data(), count);
    if (text.size() > max_bytes) {
      throw Error(ErrorCode::invalid_input, "standard input is longer than 4 GiB: use a file");
    }
  }
  if (std::ferror(stdin) != 0) throw_file_error("read", "standard input", errno);
  return text;
}

bool is_standard_input(const std::string& text) {
  return text == "-" || text == "@-";
}

}  // namespace gpux
