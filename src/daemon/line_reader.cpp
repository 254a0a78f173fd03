#include "daemon/line_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "gpux/error.h"

namespace gpux::daemon {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{256} << 10;
constexpr std::size_t kept_of_long = 4096;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

LineReader::LineReader(int descriptor, std::uint64_t offset, std::uint64_t limit)
    : descriptor_(descriptor), offset_(offset), limit_(limit) {}

bool LineReader::read_more(std::uint64_t until) {
  buffer_.erase(0, start_);
  start_ = 0;
  const std::uint64_t at = offset_ + dropped_ + buffer_.size();
  if (at >= until) return false;
  const std::size_t size = buffer_.size(), wanted = std::min<std::uint64_t>(chunk_bytes, until - at);
  buffer_.resize(size + wanted);
  ssize_t count = 0;
  do {
    count = ::pread(descriptor_, buffer_.data() + size, wanted, static_cast<off_t>(at));
  } while (count < 0 && errno == EINTR);
  buffer_.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) throw Error(ErrorCode::storage, fmt::format("cannot read on: {}", std::strerror(errno)));
  return count > 0;
}

bool LineReader::take(std::size_t length, std::size_t with_end, FoundLine& line) {
  line.text = std::string_view(buffer_).substr(start_, length);
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  line.begin = offset_;
  line.end = offset_ + dropped_ + with_end;
  line.too_long = dropped_ + length > limit_;
  if (line.too_long) line.text = line.text.substr(0, kept_of_long);
  offset_ = line.end;
  start_ += with_end;
  scanned_ = 0;
  dropped_ = 0;
  return line.too_long || !is_blank(line.text);
}

bool LineReader::next(FoundLine& line, std::uint64_t until) {
  for (;;) {
    const std::size_t found = buffer_.find('\n', start_ + scanned_);
    if (found != std::string::npos) {
      if (take(found - start_, found - start_ + 1, line)) return true;
      continue;
    }
    scanned_ = buffer_.size() - start_;
    // Of a line that is too long only the beginning is kept.
    if (dropped_ + scanned_ > limit_ + 1 && scanned_ > kept_of_long) {
      const std::size_t surplus = scanned_ - kept_of_long;
      buffer_.resize(buffer_.size() - surplus);
      dropped_ += surplus;
      scanned_ = kept_of_long;
    }
    if (!read_more(until)) return false;
  }
}

bool LineReader::rest(FoundLine& line) {
  const std::size_t length = buffer_.size() - start_;
  return length + dropped_ != 0 && take(length, length, line);
}

}  // namespace gpux::daemon
