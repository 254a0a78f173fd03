#pragma once

#include <string>

namespace gpux {

/// Whether an argument means standard input: "-" or "@-".
bool is_standard_input(const std::string& text);

/// All of it. Errors storage; invalid_input where it is longer than 4 GiB.
std::string read_standard_input();

}  // namespace gpux
