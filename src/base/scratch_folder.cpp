#include "base/scratch_folder.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/start_thread.h"
#include "base/unique_fd.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view middle = ".gpux-", random_part = "XXXXXX";

// For signal handlers: where the thread that removes folders reads.
std::atomic<int> removal_pipe = -1;
std::atomic<bool> is_ending = false;

// Another thread may still write into the folder, and make it again, until it meets an error or a locked registry.
void remove_while_used(const fs::path& folder) {
  constexpr std::chrono::milliseconds pause(5);
  std::error_code error;
  for (int seen_without = 0, i = 0; seen_without < 3 && i < 1000; ++i) {
    seen_without = fs::exists(folder, error) ? 0 : seen_without + 1;
    fs::remove_all(folder, error);
    std::this_thread::sleep_for(pause);
  }
}

/// The folders of this process, and the thread that removes them when a signal ends it.
class Registry {
 public:
  static Registry& get() {
    // Never destroyed: its thread may outlive main().
    static Registry& registry = *new Registry;
    return registry;
  }

  /// Keeps what `make` gives. A signal that comes meanwhile finds it too.
  void add(const std::function<fs::path()>& make) {
    const std::scoped_lock lock(mutex_);
    if (removal_pipe < 0) start_removal_thread();
    folders_.push_back(make());
  }

  int move(const fs::path& from, const fs::path& to) {
    const std::scoped_lock lock(mutex_);
    return rename_file(from, to);
  }

  void forget(const fs::path& folder) {
    const std::scoped_lock lock(mutex_);
    std::erase(folders_, folder);
  }

 private:
  void start_removal_thread() {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;  // they then stay until the next process removes them
    UniqueFd reading(pipe[0]), writing(pipe[1]);
    // A fork has neither the thread nor a claim to the folders. Another thread may be at work here when it is made.
    static std::once_flag once;
    std::call_once(once, [] {
      ::pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                       [] {
                         removal_pipe = -1;
                         get().folders_.clear();
                         get().mutex_.unlock();
                       });
    });
    try {
      start_thread([this, end = reading.get()] { remove_when_told(end); }).detach();
    } catch (const Error&) {
      return;  // likewise
    }
    (void)reading.release();
    removal_pipe = writing.release();
  }

  void remove_when_told(int descriptor) {
    unsigned char exit_code = 0;
    while (::read(descriptor, &exit_code, 1) != 1) {
      if (errno != EINTR) return;
    }
    // Held to the end: who meets an error because its folder has gone does not end the process with another code, and
    // nothing is moved out of a folder of which a part has gone.
    const std::scoped_lock lock(mutex_);
    for (const fs::path& folder : folders_) remove_while_used(folder);
    ::_exit(exit_code);
  }

  std::mutex mutex_;
  std::vector<fs::path> folders_;
};

enum class Unlockable : unsigned char { accepted, refused };

/// Empty, with errno set, where another process has it, or it has gone; and where its file system has no locks, unless
/// that is accepted.
UniqueFd lock_folder(const fs::path& folder, Unlockable unlockable) {
  UniqueFd descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!descriptor) return descriptor;

  struct stat opened {};

  struct stat named {};

  const bool is_locked =
      ::flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0 || (unlockable == Unlockable::accepted && errno != EWOULDBLOCK);
  const bool is_there = ::fstat(descriptor.get(), &opened) == 0 && ::lstat(folder.c_str(), &named) == 0 &&
                        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  if (is_locked && is_there) return descriptor;
  descriptor.reset();
  errno = EBUSY;
  return descriptor;
}

// The sticky bit, which has no meaning for a folder of one user: nobody else's folder has this mode and such a name.
constexpr mode_t mark = S_IRWXU | S_ISVTX;

enum class Owner : unsigned char { other, own, marked };

Owner owner_of(const fs::path& folder) {
  struct stat status {};

  const bool is_own = ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
  if (!is_own) return Owner::other;
  return (status.st_mode & ~static_cast<mode_t>(S_IFMT)) == mark ? Owner::marked : Owner::own;
}

void remove_left_behind(const fs::path& parent, const std::string& prefix) {
  std::error_code error;
  std::vector<std::pair<fs::path, Unlockable>> found;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() < random_part.size() + middle.size()) continue;
    const std::string_view begin = std::string_view(name).substr(0, name.size() - random_part.size());
    if (begin != prefix && !begin.ends_with(middle)) continue;
    // Of another place it goes where it is certain that this program made it, and that nobody uses it.
    const Owner owner = owner_of(entry->path());
    if (owner == Owner::marked || (owner == Owner::own && begin == prefix)) {
      found.emplace_back(entry->path(), begin == prefix ? Unlockable::accepted : Unlockable::refused);
    }
  }
  for (const auto& [folder, unlockable] : found) {
    if (const UniqueFd lock = lock_folder(folder, unlockable)) fs::remove_all(folder, error);
  }
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) throw_file_error("find", "the folder for temporary files", error.value());
  make(parent, "gpux-scratch-");
}

ScratchFolder::ScratchFolder(fs::path place) {
  if (!place.has_filename()) place = place.parent_path();  // "folder/"
  const fs::path parent = place.has_parent_path() ? place.parent_path() : ".";
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) throw_file_error("make the folder", parent, error.value());
  make(parent, place.filename().string() + std::string(middle));
}

void ScratchFolder::make(const fs::path& parent, const std::string& prefix) {
  remove_left_behind(parent, prefix);
  Registry::get().add([&] {
    // Before it is locked another process may take it for one that was left behind.
    for (int tries = 0; !lock_; ++tries) {
      std::string pattern = (parent / (prefix + std::string(random_part))).string();
      if (::mkdtemp(pattern.data()) == nullptr) throw_file_error("make", pattern, errno);
      path_ = pattern;
      (void)::chmod(pattern.c_str(), mark);
      lock_ = lock_folder(path_, Unlockable::accepted);
      if (!lock_ && tries == 10) {
        const int error = errno;
        ::rmdir(pattern.c_str());
        throw_file_error("lock", pattern, error);
      }
    }
    return path_;
  });
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  Registry::get().forget(path_);
}

int ScratchFolder::move_out(const fs::path& from, const fs::path& to) const {
  return Registry::get().move(from, to);
}

bool end_without_scratch_folders(int exit_code) noexcept {
  const int descriptor = removal_pipe;
  const auto byte = static_cast<unsigned char>(exit_code);
  return descriptor >= 0 && !is_ending.exchange(true) && ::write(descriptor, &byte, 1) == 1;
}

}  // namespace gpux
