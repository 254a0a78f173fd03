#include "cli/signals.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/files.h"

namespace gpux::cli {
namespace {

// Signals become bytes in a pipe, so that they can be waited for.
int written = -1;

}  // namespace

Signals::Signals(std::initializer_list<int> others) {
  if (::pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_file_error("create", "a pipe", errno);
  written = pipe_[1];

  struct sigaction action {};

  action.sa_handler = [](int signal) {
    const auto byte = static_cast<char>(signal);
    [[maybe_unused]] const auto ignored = ::write(written, &byte, 1);
  };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  for (const int other : others) ::sigaction(other, &action, nullptr);
}

int Signals::wait(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waited{.fd = pipe_[0], .events = POLLIN, .revents = 0};
    const int timeout = limit.count() < 0 ? -1 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
    const int count = ::poll(&waited, 1, timeout);
    char byte = 0;
    if (count > 0 && ::read(pipe_[0], &byte, 1) == 1) return byte;
    if (count == 0) return 0;
  }
}

}  // namespace gpux::cli
