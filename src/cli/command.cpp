#include "cli/command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::cli {

namespace {

void require_written(bool is_written) {
  if (is_written) return;
  const std::string message = fmt::format("cannot write to standard output: {}", std::strerror(errno));
  if (errno == EPIPE) throw ReaderLeft(ErrorCode::storage, message);
  throw Error(ErrorCode::storage, message);
}

bool is_put(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

// What strangers wrote is in it: names, descriptions, answers of models. A file or a program gets it byte by byte.
bool is_shown(std::string_view text) {
  return ::isatty(STDOUT_FILENO) != 0 ? is_put(shown_on_terminal(text)) : is_put(text);
}

}  // namespace

void print_data(std::string_view text) {
  require_written(is_shown(text) && std::fputc('\n', stdout) != EOF && std::fflush(stdout) == 0);
}

void print_piece(std::string_view text) {
  require_written(is_shown(text) && std::fflush(stdout) == 0);
}

void clear_terminal() {
  constexpr std::string_view home_and_clear = "\x1b[H\x1b[2J";
  if (::isatty(STDOUT_FILENO) != 0) require_written(is_put(home_and_clear));
}

void say(const Context& context, std::string_view line) {
  if (context.quiet) return;
  write_to_standard_error(fmt::format("gpux: {}\n", one_line(line)));
}

CLI::App* add_command(CLI::App& program, Context& context, const std::string& name, const std::string& description) {
  CLI::App* command = program.add_subcommand(name, description);
  CLI::Option* json = command->add_flag("--json", context.json, "JSON on standard output");
  command->add_flag("--table", context.table, "a table on standard output (the default)")->excludes(json);
  return command;
}

}  // namespace gpux::cli
