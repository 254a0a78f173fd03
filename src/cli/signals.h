#pragma once

#include <array>
#include <chrono>
#include <initializer_list>

namespace gpux::cli {

/// SIGINT, SIGTERM and `others`, from its construction on, as something to wait for. One at a time in a process.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> others = {});

  /// The signal, or 0 where none comes in time; negative: for ever.
  [[nodiscard]] int wait(std::chrono::milliseconds limit) const;

 private:
  std::array<int, 2> pipe_{};
};

}  // namespace gpux::cli
