// older_kernel landlock|seccomp|both PROGRAM...: runs the program as on a kernel that lacks these.
#include <cerrno>
#include <cstdio>
#include <string_view>

#include <linux/prctl.h>
#include <seccomp.h>
#include <unistd.h>

int main(int count, char** arguments) {
  if (count < 3) return 126;
  const std::string_view without = arguments[1];
  scmp_filter_ctx const filter = seccomp_init(SCMP_ACT_ALLOW);
  int failure = filter == nullptr ? -ENOMEM : 0;
  const auto refuse = [&](const char* name) {
    if (failure == 0) {
      failure = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), seccomp_syscall_resolve_name(name), 0);
    }
  };
  if (without != "seccomp") refuse("landlock_create_ruleset");
  if (without != "landlock") {
    refuse("seccomp");
    if (failure == 0) {
      failure =
          seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP));
    }
  }
  if (failure == 0) failure = seccomp_load(filter);
  if (failure != 0) {
    std::fprintf(stderr, "older_kernel: %d\n", failure);
    return 126;
  }
  ::execv(arguments[2], arguments + 2);
  return 127;
}
