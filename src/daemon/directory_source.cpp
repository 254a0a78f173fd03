#include "daemon/directory_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// So long a file that is no JSON may be one that is being written.
constexpr auto settling = 2s;

bool may_be_event(std::string_view name) {
  return name.ends_with(".json") && !name.starts_with('.');
}

// FNV-1a over what changes where a file does.
std::uint64_t stamp_of(const struct stat& status) {
  std::uint64_t stamp = 0xcbf29ce484222325U;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(status.st_ino), static_cast<std::uint64_t>(status.st_size),
        static_cast<std::uint64_t>(status.st_mtim.tv_sec), static_cast<std::uint64_t>(status.st_mtim.tv_nsec),
        static_cast<std::uint64_t>(status.st_ctim.tv_sec), static_cast<std::uint64_t>(status.st_ctim.tv_nsec)}) {
    for (int byte = 0; byte < 8; ++byte) stamp = (stamp ^ ((part >> (8 * byte)) & 0xff)) * 0x100000001b3U;
  }
  return stamp;
}

// A name as one line: what would end it stands as %0A.
std::string escaped(std::string_view name) {
  std::string line;
  for (const char c : name) {
    if (c == '%') {
      line += "%25";
    } else if (c == '\n') {
      line += "%0A";
    } else {
      line += c;
    }
  }
  return line;
}

std::string unescaped(std::string_view line) {
  std::string name;
  while (!line.empty()) {
    const bool is_line_end = line.starts_with("%0A"), is_percent = line.starts_with("%25");
    name += is_line_end ? '\n' : is_percent ? '%' : line.front();
    line.remove_prefix(is_line_end || is_percent ? 3 : 1);
  }
  return name;
}

std::string line_of(const std::string& name, std::uint64_t stamp) {
  return fmt::format("{:016x} {}\n", stamp, escaped(name));
}

// What the file holds now, `most` bytes at most; the number of the error in `error`.
std::string content_of(int file, std::size_t most, int& error) {
  std::string content;
  std::array<char, 16384> buffer{};
  error = 0;
  while (content.size() < most) {
    const ssize_t count = ::read(file, buffer.data(), std::min(buffer.size(), most - content.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno;
    if (count <= 0) break;
    content.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return content;
}

}  // namespace

bool is_passing_trouble(int error_number) noexcept {
  switch (error_number) {
    // Its rights or its kind: where they change, the file is looked at again.
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENXIO:
    case ENODEV:
    case EOVERFLOW:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return false;
    default:
      return true;
  }
}

DoneFiles::DoneFiles(fs::path file) : file_(std::move(file)) {
  std::error_code missing;
  if (fs::exists(file_, missing)) {
    const std::string text = read_file(file_, std::uint64_t{1} << 40);
    std::string_view rest = text;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      ++lines_;
      std::uint64_t stamp = 0;
      if (line.size() < 18 || line[16] != ' ') continue;
      const std::string_view digits = line.substr(0, 16);
      const auto [behind, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), stamp, 16);
      if (failure == std::errc() && behind == digits.data() + digits.size())
        stamps_[unescaped(line.substr(17))] = stamp;
    }
  }
  open();
}

void DoneFiles::open() {
  UniqueFd opened(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!opened) throw_file_error("open", file_, errno);
  descriptor_ = std::move(opened);
  // Behind a line that was not finished.
  [[maybe_unused]] const auto ignored = ::write(descriptor_.get(), "\n", 1);
}

bool DoneFiles::has(const std::string& name, std::uint64_t stamp) const {
  const auto found = stamps_.find(name);
  return found != stamps_.end() && found->second == stamp;
}

void DoneFiles::add(const std::string& name, std::uint64_t stamp) {
  stamps_[name] = stamp;
  const std::string line = line_of(name, stamp);
  ++lines_;
  // A full disk cuts it: the next one must not stand behind what is there of it.
  if (::write(descriptor_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    [[maybe_unused]] const auto ignored = ::write(descriptor_.get(), "\n", 1);
  }
}

void DoneFiles::keep_only(const std::set<std::string>& present) {
  if (lines_ < 2 * present.size() + 1000) return;
  std::erase_if(stamps_, [&](const auto& one) { return !present.contains(one.first); });
  FileReplacement file(file_);
  for (const auto& [name, stamp] : stamps_) {
    const std::string line = line_of(name, stamp);
    file.append(std::as_bytes(std::span(line)));
  }
  file.commit();
  lines_ = stamps_.size();
  open();
}

/// The kernel's word of what changes in a folder.
class DirectorySource::Watch {
 public:
  explicit Watch(const fs::path& folder) : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    constexpr std::uint32_t wanted =
        IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    if (!descriptor_ || ::inotify_add_watch(descriptor_.get(), folder.c_str(), wanted) < 0) {
      failure_ = std::strerror(errno);
    }
  }

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  /// Why there will be no word; empty: there will.
  [[nodiscard]] const std::string& failure() const { return failure_; }

  /// False where the folder has to be looked through: it has gone, or there was too much.
  bool take(std::set<std::string>& names) const {
    alignas(inotify_event) std::array<char, 65536> buffer{};
    for (;;) {
      const ssize_t count = ::read(descriptor_.get(), buffer.data(), buffer.size());
      if (count <= 0) return true;
      for (const char* at = buffer.data(); at < buffer.data() + count;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        if ((event->mask & (IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0) return false;
        if (event->len != 0 && may_be_event(event->name)) names.emplace(event->name);
        at += sizeof(inotify_event) + event->len;
      }
    }
  }

 private:
  UniqueFd descriptor_;
  std::string failure_;
};

// Here, where the watch is known.
DirectorySource::DirectorySource(DeclaredSource declared, SourceSurroundings surroundings)
    : Source(std::move(declared), std::move(surroundings)) {}

DirectorySource::~DirectorySource() = default;

bool DirectorySource::scan() {
  std::error_code error;
  std::set<std::string> present;
  for (fs::directory_iterator entry(declared().path, error), end; !error && entry != end; entry.increment(error)) {
    if (std::string name = entry->path().filename(); may_be_event(name)) present.insert(std::move(name));
  }
  if (error) {
    wait_for(fmt::format("cannot read the folder '{}': {}", declared().path.string(), error.message()));
    return false;
  }
  {
    const std::scoped_lock lock(mutex_);
    done_->keep_only(present);
  }
  // Those that were dealt with do not count as waiting.
  for (const std::string& name : present) {
    struct stat status {};

    if (::stat((declared().path / name).c_str(), &status) != 0) {
      if (is_passing_trouble(errno)) names_.insert(name);
      continue;
    }
    if (!S_ISREG(status.st_mode)) continue;
    const std::scoped_lock lock(mutex_);
    if (!done_->has(name, stamp_of(status))) names_.insert(name);
  }
  return true;
}

void DirectorySource::run(const std::stop_token& stop) {
  {
    const std::scoped_lock lock(mutex_);
    if (!done_) done_ = std::make_unique<DoneFiles>(around().state_folder / (declared().name + ".done"));
  }
  while (!stop.stop_requested()) {
    must_scan_ = false;
    watch(stop);
    // Too much has changed to be told, or it is another folder: watched anew at once.
    if (!stop.stop_requested() && !must_scan_) waker().sleep(std::min<std::chrono::milliseconds>(around().rescan, 2s));
  }
}

// As long as the folder is there.
void DirectorySource::watch(const std::stop_token& stop) {
  watch_ = std::make_unique<Watch>(declared().path);
  names_.clear();
  if (!scan()) return;
  wait_for({});
  if (!watch_->failure().empty()) {
    log::warning("{}: the folder is only looked through every {} ms: {}", declared().name, around().rescan.count(),
                 watch_->failure());
  }
  must_scan_ = false;
  Clock::time_point next_scan = Clock::now() + around().rescan;
  for (;;) {
    while (!names_.empty()) {
      const std::string name = std::move(names_.extract(names_.begin()).value());
      pending_count_ = names_.size();
      if (!offer(name, stop)) return;
    }
    const std::chrono::milliseconds due = take_due();
    if (!names_.empty()) continue;
    const auto until_scan = std::chrono::ceil<std::chrono::milliseconds>(next_scan - Clock::now());
    if (!must_scan_) {
      waker().sleep(std::clamp<std::chrono::milliseconds>(std::min(due, until_scan), 0ms, 60s), {watch_->descriptor()});
    }
    if (stop.stop_requested()) return;
    if (!watch_->take(names_)) must_scan_ = true;
    if (!must_scan_ && Clock::now() < next_scan) continue;
    // Where it was replaced by another of its name, that is to be watched.
    if (must_scan_ || !scan()) return;
    next_scan = Clock::now() + around().rescan;
  }
}

std::chrono::milliseconds DirectorySource::take_due() {
  const std::scoped_lock lock(mutex_);
  while (!again_.empty() && again_.begin()->first <= Clock::now()) {
    names_.insert(std::move(again_.begin()->second));
    again_.erase(again_.begin());
  }
  if (again_.empty()) return 60s;
  return std::chrono::ceil<std::chrono::milliseconds>(again_.begin()->first - Clock::now());
}

bool DirectorySource::offer(const std::string& name, const std::stop_token& stop) {
  const fs::path path = declared().path / name;

  struct stat status {};

  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int open_error = file ? 0 : errno;
  const int stat_error =
      (open_error == 0 ? ::fstat(file.get(), &status) : ::stat(path.c_str(), &status)) != 0 ? errno : 0;
  const bool is_gone = stat_error == ENOENT;  // or a link to nothing
  if (stat_error != 0 && !is_gone && is_passing_trouble(stat_error)) return put_off(name, stat_error), true;
  if (stat_error != 0 || !S_ISREG(status.st_mode)) return forget_retries(name), true;
  const std::uint64_t stamp = stamp_of(status);
  {
    const std::scoped_lock lock(mutex_);
    const auto flying = in_flight_.find(name);
    if (done_->has(name, stamp) || (flying != in_flight_.end() && flying->second == stamp)) return true;
  }
  WaitingEvent event;
  int error = open_error;
  constexpr std::size_t kept_of_refused = 4096;
  const bool fits = static_cast<std::uint64_t>(status.st_size) <= around().limits.event_bytes;
  if (error == 0) event.content = content_of(file.get(), fits ? around().limits.event_bytes : kept_of_refused, error);
  if (error != 0 && is_passing_trouble(error)) return put_off(name, error), true;
  forget_retries(name);
  if (error != 0) {
    event.refusal = fmt::format("cannot read it: {}", std::strerror(error));
  } else if (!fits) {
    event.refusal = fmt::format("it has {} bytes, more than the {} of the limit 'event_bytes'", status.st_size,
                                around().limits.event_bytes);
  }
  const auto changed = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::seconds(status.st_mtim.tv_sec)));
  event.may_grow = std::chrono::system_clock::now() - changed < settling + 1s;
  return put(name, stamp, std::move(event), stop);
}

void DirectorySource::put_off(const std::string& name, int error) {
  constexpr std::chrono::milliseconds first_wait = 500ms, longest_wait = 30s;
  std::chrono::milliseconds& wait = unreadable_[name];
  wait = wait == 0ms ? first_wait : std::min(2 * wait, longest_wait);
  wait_for(fmt::format("cannot read '{}', which is tried again: {}", name, std::strerror(error)));
  const std::scoped_lock lock(mutex_);
  again_.emplace(Clock::now() + wait, name);
}

void DirectorySource::forget_retries(const std::string& name) {
  if (unreadable_.erase(name) != 0 && unreadable_.empty()) wait_for({});
}

bool DirectorySource::put(const std::string& name, std::uint64_t stamp, WaitingEvent event,
                          const std::stop_token& stop) {
  event.source = declared().name;
  event.position = name;
  event.ended = [self = std::static_pointer_cast<DirectorySource>(shared_from_this()), name, stamp](Outcome outcome) {
    self->ended(name, stamp, outcome);
  };
  {
    const std::scoped_lock lock(mutex_);
    in_flight_[name] = stamp;
  }
  return give(std::move(event), stop);
}

void DirectorySource::look_meanwhile() {
  if (!watch_->take(names_)) must_scan_ = true;
  pending_count_ = names_.size();
}

void DirectorySource::ended(const std::string& name, std::uint64_t stamp, Outcome outcome) {
  count(outcome);
  const std::scoped_lock lock(mutex_);
  // It may have been written anew in between, and be in flight a second time.
  if (const auto found = in_flight_.find(name); found != in_flight_.end() && found->second == stamp) {
    in_flight_.erase(found);
  }
  if (outcome != Outcome::again) return done_->add(name, stamp);
  again_.emplace(Clock::now() + 500ms, name);
  waker().wake();
}

void DirectorySource::fill(SourceStatus& status) const {
  const std::scoped_lock lock(mutex_);
  status.waiting = pending_count_ + in_flight_.size() + again_.size();
}

}  // namespace gpux::daemon
