#include "isolation/system_call_filter.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace gpux::isolation {
namespace {

// By name, so that each architecture has its own numbers; one that the architecture lacks is skipped.
constexpr std::array refused{
    // programs and processes
    "execve", "execveat", "fork", "vfork", "unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "process_mrelease", "kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "tkill",
    // what ties a process to the one that started it, and the users that it may be
    "setpgid", "setsid", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups",
    // what others do with files
    "inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_mark",
    // sockets; those that the process has keep working
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4",
    // memory that no limit counts
    "memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "msgget", "msgsnd", "semget", "mq_open",
    // requests that bypass this filter, and openings that bypass paths
    "io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at", "userfaultfd", "fanotify_init",
    // attributes of files, which Landlock does not cover
    "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr",
    "removexattr", "lremovexattr", "fremovexattr", "utime", "utimes", "futimesat", "utimensat", "truncate",
    "truncate64",
    // the system
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "mount_setattr", "swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "bpf", "perf_event_open", "keyctl", "add_key", "request_key", "acct", "quotactl",
    "quotactl_fd", "syslog", "settimeofday", "stime", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
    "setdomainname", "iopl", "ioperm", "vhangup", "uselib", "nfsservctl", "lookup_dcookie", "modify_ldt", "setrlimit"};

// Of Linux 6.6 to 6.17, which libseccomp 2.5 does not know: fchmodat2, setxattrat, removexattrat, open_tree_attr,
// file_setattr. All architectures have the same numbers for them (arch/*/entry/syscalls, Linux 6.18).
constexpr std::array refused_numbers{452, 463, 466, 467, 469};

class Filter {
 public:
  Filter() : context_(::seccomp_init(SCMP_ACT_ALLOW), ::seccomp_release) {
    if (!context_) {
      failure_ = "no filter could be made";
      return;
    }
    // A call of another architecture, as of 32 bits, is none of the names above.
    set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    set(SCMP_FLTATR_CTL_TSYNC, 1);
    // A binary tree. Older versions lack it, and search in order.
    if (context_) (void)::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  }

  void refuse(int number, std::initializer_list<scmp_arg_cmp> where = {}, int error = EPERM) {
    if (!context_ || number == __NR_SCMP_ERROR) return;
    const int result = ::seccomp_rule_add_array(context_.get(), SCMP_ACT_ERRNO(static_cast<std::uint32_t>(error)),
                                                number, static_cast<unsigned>(where.size()), std::data(where));
    // EDOM, EOPNOTSUPP: this architecture does not have it.
    if (result != 0 && result != -EDOM && result != -EOPNOTSUPP) fail("a rule", result);
  }

  void refuse(const char* name, std::initializer_list<scmp_arg_cmp> where = {}, int error = EPERM) {
    refuse(::seccomp_syscall_resolve_name(name), where, error);
  }

  std::string load() {
    if (failure_.empty()) {
      if (const int result = ::seccomp_load(context_.get()); result != 0) fail("loading", result);
    }
    return failure_;
  }

 private:
  void set(scmp_filter_attr attribute, std::uint32_t value) {
    if (const int result = ::seccomp_attr_set(context_.get(), attribute, value); result != 0) fail("setting", result);
  }

  void fail(const char* what, int result) {
    if (failure_.empty()) failure_ = fmt::format("{}: {}", what, std::strerror(-result));
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  std::string failure_;
};

scmp_arg_cmp is_not(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_NE, value, 0};
}

// The kernel reads an int, whatever is above it in the register.
scmp_arg_cmp is_int(unsigned argument, std::uint32_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, 0xffffffffU, value};
}

scmp_arg_cmp has_bits(unsigned argument, std::uint64_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, bits, bits};
}

scmp_arg_cmp lacks_bits(unsigned argument, std::uint64_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, bits, 0};
}

// Threads are started, and nothing else.
void refuse_processes(Filter& filter) {
  filter.refuse("clone3", {}, ENOSYS);
  filter.refuse("clone", {lacks_bits(0, CLONE_THREAD)});
  for (const std::uint64_t flag :
       {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET}) {
    filter.refuse("clone", {has_bits(0, flag)});
  }
}

// Signals to this process alone, also those that a file sends, and no settings of others.
void refuse_other_processes(Filter& filter) {
  const auto own = static_cast<std::uint64_t>(::getpid());
  for (const char* name : {"kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"}) {
    filter.refuse(name, {is_not(0, own)});
  }
  for (const char* name : {"fcntl", "fcntl64"}) {
    for (const std::uint32_t command : {F_SETOWN, F_SETSIG, F_SETOWN_EX}) filter.refuse(name, {is_int(1, command)});
  }
  constexpr std::uint32_t set_owner = 0x8901, set_group = 0x8902, type_into_terminal = 0x5412;  // asm-generic/ioctls.h
  for (const std::uint32_t request : {set_owner, set_group, type_into_terminal}) {
    filter.refuse("ioctl", {is_int(1, request)});
  }
  // sched_setaffinity stays: sessions bind their own threads with it, by numbers that are not known here.
  for (const char* name : {"sched_setscheduler", "sched_setparam", "sched_setattr"}) {
    filter.refuse(name, {is_not(0, 0)});
  }
  // 0 is this process only where it is the number of a process, not of a group or a user.
  constexpr std::uint64_t priority_of_process = 0, input_priority_of_process = 1;
  filter.refuse("setpriority", {is_not(0, priority_of_process)});
  filter.refuse("ioprio_set", {is_not(0, input_priority_of_process)});
  for (const char* name : {"setpriority", "ioprio_set"}) filter.refuse(name, {is_not(1, 0)});
  for (const char* name : {"move_pages", "migrate_pages"}) filter.refuse(name, {is_not(0, 0)});
  for (const std::uint32_t option : {PR_SET_PDEATHSIG, PR_SCHED_CORE}) filter.refuse("prctl", {is_int(0, option)});
  filter.refuse("prlimit64", {is_not(2, 0)});
}

// Which RLIMIT_DATA does not count.
void refuse_uncounted_memory(Filter& filter) {
  for (const char* name : {"mmap", "mmap2"}) {
    filter.refuse(name, {has_bits(3, MAP_SHARED | MAP_ANONYMOUS)});
    filter.refuse(name, {has_bits(3, MAP_GROWSDOWN)});
  }
}

}  // namespace

std::string filter_system_calls() {
  Filter filter;
  for (const char* name : refused) filter.refuse(name);
  for (const int number : refused_numbers) filter.refuse(number);
  refuse_processes(filter);
  refuse_other_processes(filter);
  refuse_uncounted_memory(filter);
  constexpr std::uint64_t query = 0xffffffffU;
  filter.refuse("personality", {is_not(0, query)});
  return filter.load();
}

}  // namespace gpux::isolation
