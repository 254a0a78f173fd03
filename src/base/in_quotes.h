#pragma once

#include <string>
#include <string_view>

namespace gpux {

/// The text in single quotes as a message can show it: one line, control characters escaped, cut after 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace gpux
