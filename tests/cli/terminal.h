#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "cli/program.h"

namespace gpux::test {

/// gpux on a terminal of its own, as a user has it: what is typed, and what is shown.
class Terminal {
 public:
  /// `type`: TERM; HOME is the folder of `gpux`. With "dumb" lines are edited by the terminal itself.
  Terminal(const Program& gpux, std::vector<std::string> arguments, const char* type = "dumb");
  /// Kills it where it has not ended.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys) const;

  /// Sends a signal to the program.
  void send(int signal) const;

  /// Waits until `text` has been shown after what was awaited before. Fails the test after a minute.
  void await(std::string_view text);

  /// Whether the terminal shows what is typed.
  [[nodiscard]] bool shows_typing() const;

  /// The exit code, or 128 and the signal; -1 where it has not ended after a minute.
  int wait();

  /// All that was shown.
  [[nodiscard]] const std::string& shown() const noexcept { return shown_; }

 private:
  // Whether something came.
  bool read(std::chrono::milliseconds limit);

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string shown_;
  std::size_t awaited_ = 0;
};

}  // namespace gpux::test
