#include "interrupt.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <thread>

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

namespace gpux::python {
namespace {

/// SIGINT on its way to the call of the main thread. A handler may not call request_stop(), which takes locks and calls
/// into ONNX Runtime: it posts a semaphore, and a thread does the rest.
class Signal {
 public:
  static Signal& instance() {
    // Never destroyed: its thread waits until the process ends.
    static Signal& signal = *new Signal;
    return signal;
  }

  std::stop_token begin() {
    follow_handler();
    const std::lock_guard lock(mutex_);
    if (source_.stop_requested()) source_ = std::stop_source();
    is_running_ = true;
    earlier_ = signals_;
    return source_.get_token();
  }

  void end() {
    const std::lock_guard lock(mutex_);
    is_running_ = false;
  }

 private:
  Signal() {
    ::sem_init(&semaphore_, 0, 0);
    sigset_t all, before;
    ::sigfillset(&all);
    // Signals are for Python's threads.
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { wait(); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void wait() {
    while (true) {
      if (::sem_wait(&semaphore_) != 0) continue;
      const std::lock_guard lock(mutex_);
      // This thread may wake long after the signal, which has then ended an earlier call and raised its exception.
      if (is_running_ && signals_ != earlier_) source_.request_stop();
    }
  }

  // Python's signal.signal() replaces the process's handler, so it is looked up for each call.
  static void follow_handler() {
    struct sigaction now {};

    if (::sigaction(SIGINT, nullptr, &now) != 0) return;
    const bool has_info = (now.sa_flags & SA_SIGINFO) != 0;
    if (has_info ? now.sa_sigaction == &on_signal : now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
    previous_ = now;
    now.sa_flags |= SA_SIGINFO;
    now.sa_sigaction = &on_signal;
    ::sigaction(SIGINT, &now, nullptr);
  }

  static void on_signal(int number, siginfo_t* info, void* context) {
    const int error = errno;
    if ((previous_.sa_flags & SA_SIGINFO) != 0) {
      previous_.sa_sigaction(number, info, context);
    } else {
      previous_.sa_handler(number);
    }
    ++signals_;
    ::sem_post(&semaphore_);
    errno = error;
  }

  static inline struct sigaction previous_ {};

  static inline sem_t semaphore_{};
  static inline std::atomic<unsigned> signals_ = 0;
  std::mutex mutex_;
  std::stop_source source_;
  bool is_running_ = false;
  unsigned earlier_ = 0;  // signals before the call that runs
};

bool is_main_thread() {
  static thread_local const bool is_main = ::gettid() == ::getpid();
  return is_main;
}

}  // namespace

Interruptible::Interruptible() {
  if (!is_main_thread()) return;
  token_ = Signal::instance().begin();
  try {
    raise_signal();
  } catch (...) {
    Signal::instance().end();
    throw;
  }
}

Interruptible::~Interruptible() {
  if (token_.stop_possible()) Signal::instance().end();
}

void Interruptible::check() const {
  if (token_.stop_requested()) throw Error(ErrorCode::interrupted, "stopped by a signal");
}

void Interruptible::raise_signal() const {
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace gpux::python
