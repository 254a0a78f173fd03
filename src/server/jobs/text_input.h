#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace gpux::server {

using TokenIds = std::vector<std::uint32_t>;

/// A text, or the tokens of one.
using TextInput = std::variant<std::string, TokenIds>;

}  // namespace gpux::server
