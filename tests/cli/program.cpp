#include "cli/program.h"

#include <array>
#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

extern char** environ;

namespace gpux::test {
namespace {

void forget_callers_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("GPUX_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::string in_quotes(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// script(1) gives a program a terminal, and copies what it shows.
std::vector<std::string> on_a_terminal(const std::vector<std::string>& command, const std::filesystem::path& errors) {
  std::string line;
  for (const std::string& word : command) line += in_quotes(word) + " ";
  return {"script", "-qec", line + "2>" + in_quotes(errors.string()), "/dev/null"};
}

}  // namespace

Json Outcome::json() const {
  Json parsed = Json::parse(out, nullptr, false);
  if (!parsed.is_discarded()) return parsed;
  ADD_FAILURE() << "standard output is no JSON: '" << out << "'; standard error: '" << err << "'";
  return nullptr;
}

void PrintTo(const Outcome& outcome, std::ostream* stream) {
  *stream << "exit code " << outcome.code << ", stdout '" << outcome.out << "', stderr '" << outcome.err << "'";
}

Program::Program() {
  forget_callers_variables();
}

Outcome Program::run(const std::vector<std::string>& arguments, const Surroundings& where) const {
  std::vector<std::string> command;
  if (!where.folder.empty()) command = {"env", "-C", where.folder.string()};
  if (where.standard_input) {
    const std::filesystem::path input = folder_.write("standard_input", *where.standard_input);
    for (const char* word : {"sh", "-c", "exec \"$@\" < \"$0\""}) command.emplace_back(word);
    command.push_back(input.string());
  }
  if (!where.shell.empty()) command.insert(command.end(), {"sh", "-c", where.shell + "; exec \"$0\" \"$@\""});
  command.push_back(file().string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = where.environment;
  environment.push_back("GPUX_HOME=" + home().string());
  // No test downloads.
  environment.emplace_back("GPUX_OFFLINE=1");
  const std::filesystem::path errors = folder_.path() / "standard_error";
  if (where.terminal) command = on_a_terminal(command, errors);
  ProcessResult result = run_process(command, where.limit, environment);
  if (result.timed_out) ADD_FAILURE() << "gpux was killed after " << where.limit.count() << " s";
  if (where.terminal) {
    std::erase(result.standard_output, '\r');  // a terminal ends lines so
    result.standard_error = content_of(errors);
  }
  return {result.exit_code, result.standard_output, result.standard_error};
}

std::filesystem::path Program::file() {
  return GPUX_PROGRAM;
}

Started start(const Program& gpux, std::vector<std::string> arguments, const std::filesystem::path& log, bool append,
              const std::vector<std::pair<std::string, std::string>>& environment) {
  arguments.insert(arguments.begin(), Program::file().string());
  std::array<int, 2> out{};
  EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
  const std::string home = gpux.home();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("GPUX_HOME", home.c_str(), 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    const int told = ::open(log.c_str(), O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC), 0600);
    if (told < 0 || ::dup2(told, 2) < 0 || ::dup2(out[1], 1) < 0) ::_exit(126);
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  ::close(out[1]);
  return {child, out[0]};
}

std::string model(std::string_view name) {
  return std::string(GPUX_SOURCE_DIR "/tests/models/").append(name);
}

bool is_one_line(const std::string& err) {
  return err.starts_with("gpux: ") && err.find('\n') == err.size() - 1;
}

}  // namespace gpux::test
