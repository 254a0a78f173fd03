#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpux {

/// `text` with "${NAME}" replaced by the environment variable's value, "${NAME:-text}" by it or by `text` where it is
/// not set or empty, and "$$" by "$". Each thing that is wrong is added to `problems`.
std::string expand_variables(std::string_view text, std::vector<std::string>& problems);

/// Expands a text of a stranger, for whom no environment is read: "${NAME:-text}" is `text`, and "${NAME}" stays
/// as it is. Each name goes to `unread`.
std::string expand_without_environment(std::string_view text, std::vector<std::string>& problems,
                                       std::vector<std::string>& unread);

}  // namespace gpux
