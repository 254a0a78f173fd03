#pragma once

#include <array>
#include <chrono>

namespace gpux::cli {

/// SIGINT and SIGTERM, from its construction on, as something to wait for. One at a time in a process.
class Signals {
 public:
  Signals();

  /// The signal, or 0 where none comes in time; negative: for ever.
  [[nodiscard]] int wait(std::chrono::milliseconds limit) const;

 private:
  std::array<int, 2> pipe_{};
};

}  // namespace gpux::cli
