#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpux::cli {

/// The command's flags and arguments as typed, for another gpux to be given; those whose long names are in `except`
/// ("provider") are left out.
std::vector<std::string> typed_arguments(const CLI::App& command, const std::vector<std::string>& except);

}  // namespace gpux::cli
