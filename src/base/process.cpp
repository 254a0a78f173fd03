#include "base/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "base/write_fully.h"
#include "gpux/error.h"

extern char** environ;

namespace gpux {
namespace {

struct Pipe {
  UniqueFd read_end, write_end;

  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorCode::internal, std::string("cannot make a pipe: ") + std::strerror(errno));
    }
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
};

// Unlike a pipe it takes any size before there is a reader, and a program that does not read it sends no signal.
UniqueFd file_in_memory(std::string_view content) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  const int error = !file ? errno : write_fully(file.get(), std::as_bytes(std::span(content)), 0);
  if (error != 0)
    throw Error(ErrorCode::internal, std::string("cannot make a file in memory: ") + std::strerror(error));
  return file;
}

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

// Error internal.
pid_t start_process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                    const UniqueFd& in, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), STDERR_FILENO);

  std::vector<char*> argument_pointers, environment_pointers;
  for (const std::string& argument : arguments) argument_pointers.push_back(const_cast<char*>(argument.c_str()));
  argument_pointers.push_back(nullptr);
  for (const std::string& entry : environment) environment_pointers.push_back(const_cast<char*>(entry.c_str()));
  // Each variable once: where there are two, the loader takes the last and everybody else the first.
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = name_of(*entry);
    if (std::none_of(environment.begin(), environment.end(),
                     [&](const std::string& own) { return name_of(own) == name; })) {
      environment_pointers.push_back(*entry);
    }
  }
  environment_pointers.push_back(nullptr);

  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, argument_pointers[0], &actions, nullptr, argument_pointers.data(),
                                     environment_pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw Error(ErrorCode::internal, "cannot start '" + arguments[0] + "': " + std::strerror(failure));
  }
  return child;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, std::optional<std::chrono::milliseconds> limit,
                          const std::vector<std::string>& environment, std::string_view input) {
  using Clock = std::chrono::steady_clock;
  Pipe out, err;
  const UniqueFd in = file_in_memory(input);
  const pid_t child = start_process(arguments, environment, in, out, err);
  out.write_end.reset();
  err.write_end.reset();

  ProcessResult result;
  const auto deadline = limit ? std::optional(Clock::now() + *limit) : std::nullopt;
  std::array<pollfd, 2> watched{{{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}}};
  const std::array<std::string*, 2> sinks{&result.standard_output, &result.standard_error};
  // What is there, or comes within the time.
  const auto read_for = [&](std::chrono::milliseconds time) {
    if (::poll(watched.data(), watched.size(), static_cast<int>(time.count())) <= 0) return;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t count = ::read(watched[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        sinks[i]->append(buffer.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        watched[i].fd = -1;
      }
    }
  };
  constexpr std::chrono::milliseconds longest_pause{50};
  // Most end at once when they have closed their output.
  std::chrono::milliseconds pause{1};
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if (deadline && !result.timed_out && Clock::now() >= *deadline) {
      result.timed_out = true;
      ::kill(child, SIGKILL);
    }
    const bool is_closed = watched[0].fd < 0 && watched[1].fd < 0;
    if (is_closed) pause = std::min(pause * 2, longest_pause);
    read_for(is_closed ? pause : longest_pause);
  }
  // What it wrote before it ended fits into a pipe, which one read empties.
  read_for(std::chrono::milliseconds(0));
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace gpux
