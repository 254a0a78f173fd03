#include "daemon/file_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "daemon/rotation.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto save_interval = 500ms;
constexpr auto poll_interval = 200ms;
// So long those who write may go on with a file that was renamed.
constexpr auto rotation_grace = 2s;

std::vector<FolderFile> files_of(const fs::path& folder) {
  std::vector<FolderFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    struct stat status {};

    if (::stat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({entry->path().filename().string(), status.st_ino});
  }
  return files;
}

}  // namespace

std::string bytes_before(int descriptor, std::uint64_t offset) {
  std::array<unsigned char, 64> bytes{};
  const std::size_t wanted = std::min<std::uint64_t>(bytes.size(), offset);
  const ssize_t count = ::pread(descriptor, bytes.data(), wanted, static_cast<off_t>(offset - wanted));
  std::string digits;
  for (ssize_t i = 0; i < count; ++i) digits += fmt::format("{:02x}", bytes[static_cast<std::size_t>(i)]);
  return digits;
}

void LineSource::load() {
  if (is_loaded_) return;
  const ReadPosition kept = read_position(position_file());
  const std::scoped_lock lock(mutex_);
  position_ = saved_ = kept;
  is_loaded_ = true;
}

fs::path LineSource::position_file() const {
  return around().state_folder / (declared().name + ".position");
}

void LineSource::close_file() {
  reader_.reset();
  file_.reset();
}

ReadPosition LineSource::position() const {
  const std::scoped_lock lock(mutex_);
  return position_;
}

void LineSource::begin(UniqueFd file, ReadPosition position) {
  if (position != saved_) write_position(position_file(), position);
  close_file();
  file_ = std::move(file);
  reader_ = std::make_unique<LineReader>(file_.get(), position.offset, around().limits.event_bytes);
  read_ = position.offset;
  const std::scoped_lock lock(mutex_);
  done_ = CompletedPrefix(position.offset);
  saved_ = position;
  position_ = std::move(position);
}

bool LineSource::put(const FoundLine& line, const std::stop_token& stop) {
  WaitingEvent event;
  std::uint64_t number = 0, generation = 0;
  {
    const std::scoped_lock lock(mutex_);
    number = done_.begin(line.end);
    generation = position_.generation;
    ++lines_;
    line_bytes_ += line.end - line.begin;
  }
  event.source = declared().name;
  event.position = fmt::format("{}:{}", generation, line.begin);
  event.content = line.text;
  if (line.too_long) {
    event.refusal = fmt::format("it has {} bytes, more than the {} of the limit 'event_bytes'", line.end - line.begin,
                                around().limits.event_bytes);
  }
  event.ended = [self = std::static_pointer_cast<LineSource>(shared_from_this()), generation, number](Outcome outcome) {
    self->ended(generation, number, outcome);
  };
  read_ = line.end;
  return give(std::move(event), stop);
}

void LineSource::ended(std::uint64_t generation, std::uint64_t number, Outcome outcome) {
  count(outcome);
  const std::scoped_lock lock(mutex_);
  if (generation != position_.generation) return;
  done_.complete(number);
  if (done_.open() == 0) waker().wake();
}

bool LineSource::pump(const std::stop_token& stop, std::uint64_t until) {
  FoundLine line;
  while (reader_->next(line, until)) {
    if (!put(line, stop)) return false;
    save(false);
  }
  return !stop.stop_requested();
}

bool LineSource::pump_rest(const std::stop_token& stop) {
  FoundLine line;
  return !reader_->rest(line) || put(line, stop);
}

bool LineSource::settle(const std::stop_token& stop) {
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (done_.open() == 0) return true;
    }
    if (stop.stop_requested()) return false;
    waker().sleep(poll_interval);
  }
}

void LineSource::save(bool now) {
  if (!now && Clock::now() < next_save_) return;
  next_save_ = Clock::now() + save_interval;
  ReadPosition position;
  {
    const std::scoped_lock lock(mutex_);
    position_.offset = done_.offset();
    position = position_;
    if (position.offset == saved_.offset) return;
  }
  position.before = bytes_before(file_.get(), position.offset);
  write_position(position_file(), position);
  const std::scoped_lock lock(mutex_);
  position_.before = position.before;
  saved_ = position;
}

void LineSource::save_and_close() {
  try {
    save(true);
  } catch (const Error&) {
    // What is read again is known by then.
    const std::scoped_lock lock(mutex_);
    position_ = saved_;
  }
  close_file();
}

void LineSource::fill(SourceStatus& status) const {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t unread = end_ > read_ ? end_ - read_ : 0;
  status.waiting_bytes = unread;
  const std::uint64_t mean = lines_ == 0 ? 200 : std::max<std::uint64_t>(line_bytes_ / lines_, 1);
  status.waiting = done_.open() + (unread + mean - 1) / mean;
}

bool FileSource::open_file(const std::string& name, std::uint64_t inode) {
  const fs::path path = declared().path.parent_path() / name;
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    wait_for(fmt::format("cannot open '{}': {}", path.string(), std::strerror(errno)));
    return false;
  }

  struct stat status {};

  if (::fstat(file.get(), &status) != 0 || status.st_ino != inode) {
    // It was renamed in between: the next look finds it.
    return false;
  }
  ReadPosition position = this->position();
  const bool is_known = position.generation != 0 && position.inode == inode;
  const bool is_same = is_known && static_cast<std::uint64_t>(status.st_size) >= position.offset &&
                       (position.before.empty() || bytes_before(file.get(), position.offset) == position.before);
  if (is_known && !is_same) {
    log::warning("{}: '{}' was cut off and begun anew: it is read from its beginning", declared().name, path.string());
  }
  if (!is_same) position = {.generation = position.generation + 1, .inode = inode, .offset = 0, .before = {}};
  begin(std::move(file), position);
  seen_ = {
      .generation = 0, .inode = 0, .offset = position.offset, .before = bytes_before(descriptor(), position.offset)};
  wait_for({});
  return true;
}

bool FileSource::open_next(bool after_this) {
  const fs::path& path = declared().path;
  const std::uint64_t inode = position().generation == 0 ? 0 : position().inode;
  std::vector<FolderFile> files = files_to_read(files_of(path.parent_path()), path.filename().string(), inode);
  if (after_this && !files.empty() && files.front().inode == inode) files.erase(files.begin());
  if (!files.empty()) return open_file(files.front().name, files.front().inode);
  if (!after_this) wait_for(fmt::format("there is no file '{}'", path.string()));
  return false;
}

void FileSource::look_around(const std::stop_token& stop) {
  struct stat own {};

  struct stat named {};

  if (::fstat(descriptor(), &own) != 0) return;
  const auto size = static_cast<std::uint64_t>(own.st_size);
  const ReadPosition at = position();
  if (size < read_offset() || bytes_before(descriptor(), seen_.offset) != seen_.before) {
    log::warning("{}: '{}' was cut off and begun anew: it is read from its beginning", declared().name,
                 declared().path.string());
    if (!settle(stop)) return;
    UniqueFd again(::fcntl(descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!again) throw_file_error("open", declared().path, errno);
    begin(std::move(again), {.generation = at.generation + 1, .inode = at.inode, .offset = 0, .before = {}});
    seen_ = {};
    return;
  }
  const bool is_there = ::stat(declared().path.c_str(), &named) == 0;
  if (!is_there || (named.st_ino == own.st_ino && named.st_dev == own.st_dev)) return;
  const auto changed = std::chrono::system_clock::from_time_t(own.st_mtim.tv_sec);
  if (std::chrono::system_clock::now() - changed < rotation_grace + 1s) return;
  if (!pump(stop) || !pump_rest(stop) || !settle(stop)) return;
  save(true);
  (void)open_next(true);
}

void FileSource::look_meanwhile() {
  struct stat status {};

  if (::fstat(descriptor(), &status) == 0) set_end(static_cast<std::uint64_t>(status.st_size));
}

void FileSource::run(const std::stop_token& stop) {
  load();
  try {
    follow(stop);
  } catch (...) {
    // A descriptor may be of no more use (ESTALE): the file is opened anew, where what was begun has ended.
    if (descriptor() >= 0 && settle(stop)) {
      save_and_close();
    }
    throw;
  }
  if (descriptor() >= 0) save(true);
}

void FileSource::follow(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (descriptor() < 0 && !open_next(false)) {
      waker().sleep(poll_interval);
      continue;
    }
    look_around(stop);
    if (descriptor() < 0) continue;
    look_meanwhile();
    if (!pump(stop)) break;
    seen_.offset = read_offset();
    seen_.before = bytes_before(descriptor(), seen_.offset);
    save(false);
    waker().sleep(poll_interval);
  }
}

}  // namespace gpux::daemon
