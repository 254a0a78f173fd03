#pragma once

#include <filesystem>
#include <string_view>

#include "server/requests/request_limits.h"

namespace gpux::server {

/// The limits of clients, from a file of YAML with `default`, of each of them, and `keys`, by the names of keys; what a
/// key's entry leaves out is as `default` has it. Error invalid_config with all that is wrong; those of read_file().
LimitRules read_limits_file(const std::filesystem::path& file);
LimitRules parse_limits_file(std::string_view text, const std::filesystem::path& file);

}  // namespace gpux::server
