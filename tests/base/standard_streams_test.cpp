#include "base/standard_streams.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gpux {
namespace {

// In a process of its own: what it changes is the process's.
[[noreturn]] void write_beyond_the_limit() {
  std::signal(SIGXFSZ, SIG_DFL);
  prepare_standard_streams();
  const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
  const int file = ::memfd_create("limited", MFD_CLOEXEC);
  if (file < 0 || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
  std::array<char, 200> content{};
  const ssize_t first = ::write(file, content.data(), content.size());
  const ssize_t second = ::write(file, content.data(), content.size());
  ::_exit(first == 100 && second < 0 && errno == EFBIG ? 0 : 1);
}

TEST(StandardStreams, LeaveAProcessWhereAFileMayNotGrow) {
  EXPECT_EXIT(write_beyond_the_limit(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void write_without_a_reader() {
  std::signal(SIGPIPE, SIG_DFL);
  prepare_standard_streams();
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) ::_exit(2);
  ::close(ends[0]);
  ::_exit(::write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 1);
}

TEST(StandardStreams, LeaveAProcessWhoseReaderHasGone) {
  EXPECT_EXIT(write_without_a_reader(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpux
