#include "runtime/isolation/error_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "gpux/error.h"

namespace gpux::runtime::isolation {

ErrorStream::ErrorStream() : ended_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::array<int, 2> ends{-1, -1};
  if (!ended_ || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("cannot create the standard error of a worker process: {}", std::strerror(errno)));
  }
  reading_.reset(ends[0]);
  writing_.reset(ends[1]);
  // Of this end alone: the worker waits where it writes faster than is read.
  ::fcntl(reading_.get(), F_SETFL, O_NONBLOCK);
  thread_ = std::thread([this] { pass_on(); });
}

ErrorStream::~ErrorStream() {
  (void)::eventfd_write(ended_.get(), 1);
  thread_.join();
}

void ErrorStream::pass_on() {
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(reading_.get(), part.data(), part.size());
    if (count > 0) {
      write_to_standard_error(without_control_characters({part.data(), static_cast<std::size_t>(count)}));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || errno != EAGAIN) return;
    // What the worker started may have the other end still.
    std::array<pollfd, 2> watched{{{reading_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
    const bool is_interrupted = ::poll(watched.data(), watched.size(), -1) < 0;
    if (!is_interrupted && watched[0].revents == 0 && watched[1].revents != 0) return;
  }
}

std::string without_control_characters(std::string_view text) {
  constexpr char last_control = 0x1f, rubout = 0x7f;
  std::string clean(text);
  std::ranges::replace_if(
      clean,
      [](char c) {
        const bool is_control = (c >= 0 && c <= last_control) || c == rubout;
        return is_control && c != '\n' && c != '\t';
      },
      '?');
  return clean;
}

}  // namespace gpux::runtime::isolation
