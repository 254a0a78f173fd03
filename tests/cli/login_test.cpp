// gpux login on a terminal.
#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/sanitizers.h"
#include "cli/program.h"
#include "cli/terminal.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Until the program has hidden it after its question, or shown it again.
bool comes_to_show(const Terminal& terminal, bool shows) {
  for (int i = 0; i < 2000 && terminal.shows_typing() != shows; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return terminal.shows_typing() == shows;
}

TEST(Login, ShowsTypingAgainWhenASignalEndsIt) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer keeps signals back while the program reads";
  const Program gpux;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Terminal terminal(gpux, {"login", "127.0.0.1:1", "-u", "user"});
    terminal.await("Password: ");
    ASSERT_TRUE(comes_to_show(terminal, false));
    if (signal == SIGINT) {
      terminal.type("secret\x03");
    } else {
      terminal.send(signal);
    }
    EXPECT_NE(terminal.wait(), 0);
    EXPECT_TRUE(terminal.shows_typing()) << signal;
    EXPECT_THAT(terminal.shown(), Not(HasSubstr("secret")));
  }
}

// Without a shell that would continue it, a stop has no effect, and the program is where a continued one is.
TEST(Login, HidesThePasswordAgainAfterAStop) {
  const Program gpux;
  Terminal terminal(gpux, {"login", "127.0.0.1:1", "-u", "user"});
  terminal.await("Password: ");
  ASSERT_TRUE(comes_to_show(terminal, false));
  terminal.send(SIGTSTP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_TRUE(comes_to_show(terminal, false));
  terminal.type("secret\n");
  EXPECT_EQ(terminal.wait(), 10) << "nobody listens";
  EXPECT_TRUE(terminal.shows_typing());
  EXPECT_THAT(terminal.shown(), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace gpux::test
