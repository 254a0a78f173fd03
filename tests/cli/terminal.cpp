#include "cli/terminal.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace gpux::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds limit{60};

}  // namespace

Terminal::Terminal(const Program& gpux, std::vector<std::string> arguments, const char* type) {
  arguments.insert(arguments.begin(), Program::file().string());
  const std::string home = gpux.home(), folder = gpux.folder().path();
  child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
  if (child_ == 0) {
    ::setenv("GPUX_HOME", home.c_str(), 1);
    ::setenv("GPUX_OFFLINE", "1", 1);
    ::setenv("HOME", folder.c_str(), 1);
    ::setenv("TERM", type, 1);
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  EXPECT_GT(child_, 0);
}

Terminal::~Terminal() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(terminal_);
}

void Terminal::type(std::string_view keys) const {
  EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

bool Terminal::read(std::chrono::milliseconds wait) {
  pollfd waited{.fd = terminal_, .events = POLLIN, .revents = 0};
  if (::poll(&waited, 1, static_cast<int>(wait.count())) <= 0) return false;
  std::array<char, 4096> bytes{};
  const ssize_t count = ::read(terminal_, bytes.data(), bytes.size());
  if (count <= 0) return false;
  shown_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

void Terminal::await(std::string_view text) {
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    const std::size_t at = shown_.find(text, awaited_);
    if (at != std::string::npos) {
      awaited_ = at + text.size();
      return;
    }
    if (Clock::now() > end) break;
    (void)read(std::chrono::milliseconds(100));
  }
  ADD_FAILURE() << "'" << text << "' was not shown; shown: " << shown_;
}

void Terminal::send(int signal) const {
  EXPECT_EQ(::kill(child_, signal), 0);
}

bool Terminal::shows_typing() const {
  termios settings{};
  EXPECT_EQ(::tcgetattr(terminal_, &settings), 0);
  return (settings.c_lflag & static_cast<tcflag_t>(ECHO)) != 0;
}

int Terminal::wait() {
  const Clock::time_point end = Clock::now() + limit;
  while (Clock::now() < end) {
    while (read(std::chrono::milliseconds(20))) {
    }
    int status = 0;
    if (::waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      while (read(std::chrono::milliseconds(0))) {
      }
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
  }
  ADD_FAILURE() << "gpux has not ended; shown: " << shown_;
  return -1;
}

}  // namespace gpux::test
