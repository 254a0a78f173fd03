#include "isolation/landlock.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace gpux::isolation {
namespace {

namespace fs = std::filesystem;

// Of include/uapi/linux/landlock.h, Linux 6.18, which older headers lack. The ABI that has them first is in brackets.
constexpr std::uint64_t access_truncate = 1ULL << 14;        // LANDLOCK_ACCESS_FS_TRUNCATE (3)
constexpr std::uint64_t access_control_device = 1ULL << 15;  // LANDLOCK_ACCESS_FS_IOCTL_DEV (5)
constexpr std::uint64_t access_bind_tcp = 1ULL << 0;         // LANDLOCK_ACCESS_NET_BIND_TCP (4)
constexpr std::uint64_t access_connect_tcp = 1ULL << 1;      // LANDLOCK_ACCESS_NET_CONNECT_TCP (4)
constexpr std::uint64_t scope_abstract_sockets = 1ULL << 0;  // LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (6)
constexpr std::uint64_t scope_signals = 1ULL << 1;           // LANDLOCK_SCOPE_SIGNAL (6)

// landlock_ruleset_attr with the fields of ABI 4 and 6. The kernel takes a shorter one.
struct Ruleset {
  std::uint64_t files = 0, network = 0, scopes = 0;
};

constexpr unsigned abi_of_truncation = 3, abi_of_network = 4, abi_of_devices = 5, abi_of_scopes = 6;

std::size_t size_for(unsigned abi) {
  if (abi >= abi_of_scopes) return sizeof(Ruleset);
  return abi >= abi_of_network ? 2 * sizeof(std::uint64_t) : sizeof(std::uint64_t);
}

constexpr std::uint64_t reading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t changing = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                   LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                   LANDLOCK_ACCESS_FS_MAKE_REG | access_truncate;
constexpr std::uint64_t controlling = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                                      LANDLOCK_ACCESS_FS_WRITE_FILE | access_truncate | access_control_device;
// What may be allowed for a file; the rest is about folders.
constexpr std::uint64_t of_files = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                   LANDLOCK_ACCESS_FS_EXECUTE | access_truncate | access_control_device;

// All that the ABI knows.
std::uint64_t handled_by(unsigned abi) {
  std::uint64_t access = LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1;  // that and all before it: ABI 1
  if (abi >= 2) access |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= abi_of_truncation) access |= access_truncate;
  if (abi >= abi_of_devices) access |= access_control_device;
  return access;
}

int create_ruleset(const Ruleset* ruleset, std::size_t size, std::uint32_t flags) {
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, ruleset, size, flags));
}

class Rules {
 public:
  explicit Rules(unsigned abi) : handled_(handled_by(abi)) {
    Ruleset ruleset{.files = handled_};
    if (abi >= abi_of_network) ruleset.network = access_bind_tcp | access_connect_tcp;
    if (abi >= abi_of_scopes) ruleset.scopes = scope_abstract_sockets | scope_signals;
    ruleset_ = UniqueFd(create_ruleset(&ruleset, size_for(abi), 0));
    if (!ruleset_) fail("making rules", errno);
  }

  // What is not there needs no rule.
  void allow(const fs::path& path, std::uint64_t access) {
    UniqueFd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!file) return;

    struct stat status {};

    if (::fstat(file.get(), &status) == 0) {
      if (!S_ISDIR(status.st_mode)) access &= of_files;
      landlock_path_beneath_attr rule{.allowed_access = access & handled_, .parent_fd = file.get()};
      if (::syscall(SYS_landlock_add_rule, ruleset_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
        fail(path.c_str(), errno);
      }
    }
    // The kernel makes entries of /proc anew once nobody has them open, and the rule is about the one that is open.
    if (path.native().starts_with("/proc/")) (void)file.release();
  }

  // "/dev/nvidia*": all whose names begin so.
  void allow_all(const fs::path& path, std::uint64_t access) {
    const std::string name = path.filename();
    if (!name.ends_with('*')) return allow(path, access);
    std::error_code error;
    for (fs::directory_iterator entry(path.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
      const std::string found = entry->path().filename();
      if (found.starts_with(name.substr(0, name.size() - 1))) allow(entry->path(), access);
    }
  }

  std::string enforce() {
    if (failure_.empty() && ::syscall(SYS_landlock_restrict_self, ruleset_.get(), 0) != 0) fail("enforcing", errno);
    return failure_;
  }

 private:
  void fail(const char* what, int error) {
    if (failure_.empty()) failure_ = fmt::format("{}: {}", what, std::strerror(error));
  }

  std::uint64_t handled_;
  UniqueFd ruleset_;
  std::string failure_;
};

}  // namespace

unsigned landlock_abi(std::string& why) {
  const int abi = create_ruleset(nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi > 0) return static_cast<unsigned>(abi);
  why = std::strerror(errno);
  return 0;
}

std::string restrict_paths(const SandboxPlan& plan, unsigned abi) {
  Rules rules(abi);
  for (const fs::path& path : plan.readable) rules.allow(path, reading);
  for (const fs::path& path : plan.writable) rules.allow(path, reading | changing);
  for (const fs::path& path : plan.devices) rules.allow_all(path, controlling);
  return rules.enforce();
}

}  // namespace gpux::isolation
