#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "gpux/error.h"

namespace gpux {

/// Runs this program again, quietly, with `arguments`, and waits for it.
ProcessResult run_child(std::vector<std::string> arguments,
                        std::optional<std::chrono::milliseconds> limit = std::nullopt);

/// The error that a child ended with, from its exit code and the last line of its standard error.
Error child_error(const ProcessResult& result);

}  // namespace gpux
