#include "isolation/error_stream.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "base/start_thread.h"
#include "gpux/error.h"

namespace gpux::isolation {

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
  thread_ = start_thread([this] { pass_on(); });
}

ErrorStream::~ErrorStream() {
  (void)::eventfd_write(ended_.get(), 1);
  thread_.join();
}

void ErrorStream::pass_on() noexcept {
  constexpr std::size_t longest_line = 4096;
  std::array<char, longest_line> part{};
  std::string line;
  // What there is no memory for is lost, and the worker is not stopped by a full pipe.
  const auto write = [](const std::string& text) {
    try {
      write_to_standard_error(without_control_characters(text));
    } catch (const std::exception&) {
    }
  };
  for (;;) {
    const ssize_t count = ::read(reading_.get(), part.data(), part.size());
    if (count > 0) {
      try {
        line.append(part.data(), static_cast<std::size_t>(count));
      } catch (const std::exception&) {
        line.clear();
      }
      // As whole lines, so that no character is cut in two.
      const std::size_t end = line.size() > longest_line ? line.size() : line.rfind('\n') + 1;
      if (end == 0) continue;
      write(line.substr(0, end));
      line.erase(0, end);
      continue;
    }
    if (!line.empty()) write(std::exchange(line, {}));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || errno != EAGAIN) return;
    // What the worker started may have the other end still.
    std::array<pollfd, 2> watched{{{reading_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}}};
    const bool is_interrupted = ::poll(watched.data(), watched.size(), -1) < 0;
    if (!is_interrupted && watched[0].revents == 0 && watched[1].revents != 0) return;
  }
}

std::string without_control_characters(std::string_view text) {
  constexpr unsigned char last_control = 0x1f, rubout = 0x7f;
  // U+0080 to U+009F in UTF-8, of which U+009B begins commands of terminals.
  constexpr unsigned char lead_of_c1 = 0xc2, first_c1 = 0x80, last_c1 = 0x9f;
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    const bool is_c1 = byte == lead_of_c1 && next >= first_c1 && next <= last_c1;
    const bool is_control = (byte <= last_control || byte == rubout) && byte != '\n' && byte != '\t';
    clean += is_c1 || is_control ? '?' : text[i];
    if (is_c1) ++i;
  }
  return clean;
}

}  // namespace gpux::isolation
