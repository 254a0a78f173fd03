#pragma once

#include <string>
#include <string_view>

namespace gpux::server {

/// `prefix` and 32 hexadecimal digits of the system's random numbers: nobody guesses it.
std::string random_id(std::string_view prefix);

}  // namespace gpux::server
