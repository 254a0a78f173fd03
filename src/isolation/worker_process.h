#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"
#include "gpux/options.h"
#include "isolation/error_stream.h"

namespace gpux::isolation {

/// The descriptor that `gpux worker` gets its socket as.
inline constexpr int worker_socket = 3;

/// A process of this program that runs `gpux worker`: it has a pipe for its standard error, a socket, and no descriptor
/// of this process. It ends with the thread that started it, at the latest.
class WorkerProcess {
 public:
  /// `label`: shown in the list of processes. With a sandbox it gets the variables that sandbox_keeps_variable() names,
  /// without one all but the keys and tokens of gpux. Errors usage where this program is not gpux; internal,
  /// resource_exhausted.
  WorkerProcess(const std::string& label, Sandbox sandbox);
  /// Kills it, unless it has ended.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  [[nodiscard]] pid_t id() const noexcept { return id_; }

  /// For WorkerCommand and LoadReply. The worker ends when this end is closed.
  [[nodiscard]] int control() const noexcept { return control_.get(); }

  void kill() const noexcept;

  /// Waits for its end, after killing what has only closed its socket. "was ended by signal 11 (SIGSEGV)", "exited with
  /// code 3".
  std::string wait();

 private:
  ErrorStream errors_;
  UniqueFd control_;
  pid_t id_ = -1;  // -1: it has ended
};

/// Resident memory of a process, 0 if it has ended.
std::uint64_t resident_bytes_of(pid_t process);

/// "was ended by signal 9 (SIGKILL)" or "exited with code 3", from the status of waitpid(). Pure.
std::string describe_end(int status);

}  // namespace gpux::isolation
