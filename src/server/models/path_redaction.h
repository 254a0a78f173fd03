#pragma once

#include <string>
#include <string_view>

namespace gpux::server {

/// The message with each path of this machine cut to its last name, for clients: where files are stored is not theirs
/// to know. Paths begin with '/', './', '../' or '~/' behind anything but a letter or digit. One in quotes ends with
/// them; another ends at a colon, semicolon, comma or bracket, so that one with blanks in it is not left over in part.
std::string without_paths(std::string_view message);

}  // namespace gpux::server
