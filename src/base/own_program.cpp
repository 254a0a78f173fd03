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
  if (!program_of_workers().empty()) return program_of_workers();
  const std::filesystem::path library = own_library_path();
  if (library == executable_path()) return {};
  if (std::filesystem::path named = environment_variable("GPUX_PROGRAM"); !named.empty()) return named;
  // PREFIX/lib/libgpux.so, or PREFIX/lib/ARCHITECTURE/libgpux.so.
  const std::filesystem::path folder = library.parent_path();
  for (const std::filesystem::path& prefix : {folder.parent_path(), folder.parent_path().parent_path()}) {
    std::error_code error;
    if (std::filesystem::is_regular_file(prefix / "bin/gpux", error)) return prefix / "bin/gpux";
  }
  return {};
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
