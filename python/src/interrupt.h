#pragma once

#include <stop_token>

namespace gpux::python {

/// Lets Ctrl-C end a call into the library. Python handles a signal on its main thread when a call returns, so a call
/// that takes minutes would not end before. While an object of this class exists on the main thread, SIGINT also
/// requests a stop. On other threads it does nothing, as Python handles no signals there.
///
///     const Interruptible interruptible;           // with the GIL
///     { gil_scoped_release; work(interruptible.token()); }
class Interruptible {
 public:
  /// Throws python_error where a signal that came before raises an exception. Requires the GIL.
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Not stop_possible() on other threads than the main one.
  [[nodiscard]] const std::stop_token& token() const noexcept { return token_; }

  /// Throws Error interrupted after a stop. Any thread, without the GIL.
  void check() const;

  /// Runs Python's handlers of signals: throws python_error where one raises, as that of Ctrl-C does. Requires the GIL.
  void raise_signal() const;

 private:
  std::stop_token token_;
};

/// Calls `work(token)` without the GIL. KeyboardInterrupt where Ctrl-C ended it. Requires the GIL.
template <typename Work>
auto without_gil(const Work& work);

}  // namespace gpux::python

#include <gpux/error.h>

#include <nanobind/nanobind.h>

namespace gpux::python {

template <typename Work>
auto without_gil(const Work& work) {
  const Interruptible interruptible;
  try {
    const nanobind::gil_scoped_release released;
    return work(interruptible);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) interruptible.raise_signal();
    throw;
  }
}

}  // namespace gpux::python
