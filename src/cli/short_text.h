#pragma once

#include <string>

namespace gpux::cli {

/// So much of a text that a line of a terminal holds: one line of 80 characters at most.
std::string beginning_of(const std::string& text);

}  // namespace gpux::cli
