#pragma once

#include <array>
#include <functional>
#include <thread>

#include "base/unique_fd.h"

namespace gpux::cli {

/// SIGINT, while this exists, as something to wait for instead of the end of the program. One at a time in a process.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Can be read after a SIGINT that take() has not taken.
  [[nodiscard]] int descriptor() const noexcept { return read_.get(); }

  /// Whether a SIGINT has come since the last call.
  bool take() noexcept;

 private:
  UniqueFd read_, write_;
};

/// Calls a function at a SIGINT, on a thread of its own, while this exists.
class AtInterrupt {
 public:
  AtInterrupt(Interrupts& interrupts, std::function<void()> call);
  ~AtInterrupt();
  AtInterrupt(const AtInterrupt&) = delete;
  AtInterrupt& operator=(const AtInterrupt&) = delete;

 private:
  UniqueFd end_;
  std::thread thread_;
};

}  // namespace gpux::cli
