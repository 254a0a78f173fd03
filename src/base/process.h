#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpux {

struct ProcessResult {
  int exit_code = -1;      ///< 128 + signal where one ended it
  bool timed_out = false;  ///< it was killed at the time limit
  std::string standard_output;
  std::string standard_error;
};

/// Runs `arguments[0]` with the rest as its arguments and waits until it ends, or for `limit`: never for what it
/// started itself, though that may hold its output open. Its standard input is `input`. `environment` is added to this
/// process's own and replaces what has the same name ("NAME=value", each name once). Error internal where it cannot be
/// started.
ProcessResult run_process(const std::vector<std::string>& arguments,
                          std::optional<std::chrono::milliseconds> limit = std::nullopt,
                          const std::vector<std::string>& environment = {}, std::string_view input = {});

}  // namespace gpux
