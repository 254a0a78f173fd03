#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "gpux/error.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The command's flags and arguments as typed, for another gpux to be given; those whose long names are in `except`
/// ("provider") are left out.
std::vector<std::string> typed_arguments(const CLI::App& command, const std::vector<std::string>& except);

/// Runs this program again, quietly, with `arguments`, and waits for it.
ProcessResult run_child(std::vector<std::string> arguments,
                        std::optional<std::chrono::milliseconds> limit = std::nullopt);

/// The error that a child ended with, from its exit code and the last line of its standard error.
Error child_error(const ProcessResult& result);

}  // namespace gpux::cli
