#include "cli/line_reader.h"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux::cli {

bool LineReader::take_line(std::string& line) {
  const std::size_t at = held_.find('\n', searched_);
  if (at == std::string::npos) {
    searched_ = held_.size();
    if (!is_at_end_ || held_.empty()) return false;
    line.swap(held_);
    held_.clear();
  } else {
    line = held_.substr(0, at);
    held_.erase(0, at + 1);
  }
  searched_ = 0;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

LineReader::Event LineReader::next(std::string& line) {
  std::array<char, 4096> bytes{};
  for (;;) {
    if (take_line(line)) return Event::line;
    if (is_at_end_) return Event::end;
    if (held_.size() > max_bytes_) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("a line of standard input is longer than {} bytes", max_bytes_));
    }
    std::array<pollfd, 2> waited{
        {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
         {.fd = interrupts_ != nullptr ? interrupts_->descriptor() : -1, .events = POLLIN, .revents = 0}}};
    if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) {
      throw_file_error("read", "standard input", errno);
    }
    if (interrupts_ != nullptr && interrupts_->take()) {
      held_.clear();
      searched_ = 0;
      return Event::interrupt;
    }
    if (waited[0].revents == 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) throw_file_error("read", "standard input", errno);
    if (count == 0) is_at_end_ = true;
    if (count > 0) held_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace gpux::cli
