#pragma once

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace gpux {

/// Owns a file descriptor, and closes it. Movable; -1 and false if it has none.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;

  explicit UniqueFd(int descriptor) noexcept : descriptor_(descriptor) {}

  ~UniqueFd() { reset(); }

  UniqueFd(UniqueFd&& other) noexcept : descriptor_(other.release()) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }

  [[nodiscard]] int get() const noexcept { return descriptor_; }

  explicit operator bool() const noexcept { return descriptor_ >= 0; }

  /// Gives up the descriptor without closing it: the caller owns it.
  int release() noexcept { return std::exchange(descriptor_, -1); }

  /// Closes the descriptor, and owns this one.
  void reset(int descriptor = -1) noexcept {
    (void)close();
    descriptor_ = descriptor;
  }

  /// Returns errno's number, for writers: the file may not have what was written. 0 if there was no error.
  [[nodiscard]] int close() noexcept {
    if (descriptor_ < 0) return 0;
    return ::close(release()) == 0 ? 0 : errno;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace gpux
