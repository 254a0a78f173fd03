#include "base/own_program.h"

#include <utility>

#include <fmt/format.h>

#include "base/error_number.h"
#include "base/home.h"

namespace gpux {
namespace {

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t begin = text.rfind('\n');
  if (begin != std::string_view::npos) text.remove_prefix(begin + 1);
  constexpr std::string_view prefix = "gpux: ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return std::string(text);
}

std::filesystem::path& program_of_workers() {
  static std::filesystem::path program;
  return program;
}

}  // namespace

std::filesystem::path worker_program() {
  return program_of_workers();
}

void set_worker_program(std::filesystem::path program) {
  program_of_workers() = std::move(program);
}

ProcessResult run_child(std::vector<std::string> arguments, std::optional<std::chrono::milliseconds> limit) {
  arguments.insert(arguments.begin(), {executable_path().string(), "--quiet"});
  return run_process(arguments, limit);
}

Error child_error(const ProcessResult& result) {
  std::string said = last_line(result.standard_error);
  if (result.timed_out) return {ErrorCode::deadline_exceeded, "no answer in time"};
  if (result.exit_code > 128 && result.exit_code != static_cast<int>(ErrorCode::interrupted)) {
    return {ErrorCode::internal, fmt::format("the process was ended by signal {}{}{}", result.exit_code - 128,
                                             said.empty() ? "" : ": ", said)};
  }
  if (said.empty()) said = fmt::format("the process ended with {} and said nothing", result.exit_code);
  return {error_code_of(result.exit_code), said};
}

}  // namespace gpux
