#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "gpux/error.h"

namespace gpux {

/// Runs this program again, quietly, with `arguments`, and waits for it.
ProcessResult run_child(std::vector<std::string> arguments,
                        std::optional<std::chrono::milliseconds> limit = std::nullopt);

/// The gpux program, to be started as a worker of this process: this one, or for a program that uses the library what
/// $GPUX_PROGRAM names, else the one that was installed with the library. Empty where there is none.
std::filesystem::path worker_program();

/// Called by the program itself, before anything asks.
void set_worker_program(std::filesystem::path program);

/// The error that a child ended with, from its exit code and the last line of its standard error.
Error child_error(const ProcessResult& result);

}  // namespace gpux
