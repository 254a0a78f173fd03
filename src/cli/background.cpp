#include "cli/background.h"

#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/home.h"
#include "base/own_program.h"
#include "base/unique_fd.h"

namespace gpux::cli {

std::string start_in_background(std::vector<std::string> arguments) {
  const std::string program = executable_path().string();
  arguments.insert(arguments.begin(), program);
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_file_error("create", "a pipe", errno);
  UniqueFd out(ends[0]), child_out(ends[1]);
  // In memory, so that the child never waits for a reader, and a full disk keeps nothing from it.
  UniqueFd memory(::memfd_create("gpux-messages", MFD_CLOEXEC));
  std::FILE* said = memory ? ::fdopen(memory.get(), "w+") : nullptr;
  if (said == nullptr) throw_file_error("create", "a file in memory", errno);
  memory.release();
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) throw_file_error("open", "/dev/null", errno);
  const pid_t child = ::fork();
  if (child < 0) throw_file_error("start", program, errno);
  if (child == 0) {
    ::setsid();
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(child_out.get(), STDOUT_FILENO);
    ::dup2(::fileno(said), STDERR_FILENO);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  child_out.reset();
  std::string line;
  char byte = 0;
  while (::read(out.get(), &byte, 1) == 1 && byte != '\n') line += byte;
  out.reset();
  ProcessResult result;
  if (byte != '\n') {
    int status = 0;
    ::waitpid(child, &status, 0);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool at_start = std::fseek(said, 0, SEEK_SET) == 0;
    for (int c = at_start ? std::fgetc(said) : EOF; c != EOF; c = std::fgetc(said))
      result.standard_error += static_cast<char>(c);
  }
  std::fclose(said);
  if (byte != '\n') throw child_error(result);
  return line;
}

void leave_foreground() {
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return;
  ::dup2(nothing.get(), STDOUT_FILENO);
  ::dup2(nothing.get(), STDERR_FILENO);
}

}  // namespace gpux::cli
