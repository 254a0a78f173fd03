#include "isolation/worker_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format_message.h"
#include "base/home.h"
#include "base/own_program.h"
#include "gpux/error.h"
#include "isolation/message_socket.h"
#include "isolation/sandbox_plan.h"
#include "isolation/worker_protocol.h"

extern char** environ;

namespace gpux::isolation {
namespace {

// What a model has no use for.
constexpr std::array<std::string_view, 4> secrets{"GPUX_ADMIN_KEY", "GPUX_API_KEY", "HF_TOKEN",
                                                  "HUGGING_FACE_HUB_TOKEN"};

std::vector<char*> environment_of_worker(Sandbox sandbox) {
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool is_kept =
        sandbox == Sandbox::off ? std::ranges::find(secrets, name) == secrets.end() : sandbox_keeps_variable(name);
    if (is_kept) variables.push_back(*entry);
  }
  variables.push_back(nullptr);
  return variables;
}

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }

  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }

  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

std::filesystem::path program_of_workers() {
  std::filesystem::path program = worker_program();
  if (!program.empty()) return program;
  throw Error(ErrorCode::usage,
              format_message("isolation 'process' requires the gpux program, which is not beside the library of '{}': "
                             "install it, or name it in GPUX_PROGRAM; accepted without it: thread",
                             file_at(executable_path())));
}

}  // namespace

WorkerProcess::WorkerProcess(const std::string& label, Sandbox sandbox) {
  const std::filesystem::path program = program_of_workers();
  auto [own, others] = make_socket_pair();
  SpawnActions actions;
  ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(actions.get(), errors_.writing_end(), STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(actions.get(), others.get(), worker_socket);
  ::posix_spawn_file_actions_addclosefrom_np(actions.get(), worker_socket + 1);
  std::array<std::string, 5> words{"gpux", "worker", label, "--protocol", worker_protocol};
  std::array<char*, words.size() + 1> arguments{};
  std::ranges::transform(words, arguments.begin(), [](std::string& word) { return word.data(); });
  std::vector<char*> environment = environment_of_worker(sandbox);
  const int failure =
      ::posix_spawn(&id_, program.c_str(), actions.get(), nullptr, arguments.data(), environment.data());
  if (failure != 0) {
    id_ = -1;
    throw Error(ErrorCode::internal, fmt::format("cannot start a worker process: {}", std::strerror(failure)));
  }
  errors_.close_writing_end();
  control_ = std::move(own);
}

WorkerProcess::~WorkerProcess() {
  if (id_ > 0) (void)wait();
}

void WorkerProcess::kill() const noexcept {
  if (id_ > 0) ::kill(id_, SIGKILL);
}

std::string WorkerProcess::wait() {
  kill();  // one that has ended keeps its status
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(id_, &status, 0);
  while (ended < 0 && errno == EINTR);
  id_ = -1;
  return ended < 0 ? std::string("has ended") : describe_end(status);
}

std::uint64_t resident_bytes_of(pid_t process) {
  std::ifstream pages("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t total = 0, resident = 0;
  pages >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string describe_end(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return "has ended";
  const int number = WTERMSIG(status);
  const char* name = ::sigabbrev_np(number);
  if (name == nullptr) return fmt::format("was ended by signal {}", number);
  return fmt::format("was ended by signal {} (SIG{})", number, name);
}

}  // namespace gpux::isolation
