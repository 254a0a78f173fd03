#include "cli/interrupts.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/files.h"

namespace gpux::cli {
namespace {

std::atomic<int> written{-1};

struct sigaction action_before {};

void note(int /*signal*/) {
  const int error = errno;
  const char byte = 0;
  [[maybe_unused]] const auto ignored = ::write(written.load(), &byte, 1);
  errno = error;
}

}  // namespace

Interrupts::Interrupts() {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_file_error("create", "a pipe", errno);
  read_.reset(pipe[0]);
  write_.reset(pipe[1]);
  written = write_.get();

  struct sigaction action {};

  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // a write to the terminal goes on
  ::sigaction(SIGINT, &action, &action_before);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &action_before, nullptr);
  written = -1;
}

bool Interrupts::take() noexcept {
  std::array<char, 64> bytes{};
  bool is_any = false;
  while (::read(read_.get(), bytes.data(), bytes.size()) > 0) is_any = true;
  return is_any;
}

AtInterrupt::AtInterrupt(Interrupts& interrupts, std::function<void()> call) : end_(::eventfd(0, EFD_CLOEXEC)) {
  if (!end_) throw_file_error("create", "an event", errno);
  (void)interrupts.take();
  thread_ = std::thread([&interrupts, end = end_.get(), call = std::move(call)] {
    for (;;) {
      std::array<pollfd, 2> waited{{{.fd = interrupts.descriptor(), .events = POLLIN, .revents = 0},
                                    {.fd = end, .events = POLLIN, .revents = 0}}};
      if (::poll(waited.data(), waited.size(), -1) < 0) continue;  // a signal
      if (waited[1].revents != 0) return;
      if (interrupts.take()) call();
    }
  });
}

AtInterrupt::~AtInterrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto ignored = ::write(end_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace gpux::cli
