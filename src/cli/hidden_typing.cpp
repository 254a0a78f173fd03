#include "cli/hidden_typing.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <termios.h>
#include <unistd.h>

namespace gpux::cli {
namespace {

constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

// A handler has no other way to know them.
termios shown, hidden;
std::array<struct sigaction, signals.size()> actions_before;

void show_and_go_on(int signal);

void catch_signals() {
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction action {};

    action.sa_handler = show_and_go_on;
    action.sa_flags = SA_RESTART;  // what is being typed is read on when the process goes on
    ::sigaction(signals[i], &action, &actions_before[i]);
    // After nohup it does nothing.
    if (actions_before[i].sa_handler == SIG_IGN) ::sigaction(signals[i], &actions_before[i], nullptr);
  }
}

void let_signals_go() {
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &actions_before[i], nullptr);
}

// What the signal did before is done: it ends the process, or stops it until a shell continues it.
void show_and_go_on(int signal) {
  const int error = errno;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &shown);
  let_signals_go();
  ::raise(signal);
  sigset_t raised;
  ::sigemptyset(&raised);
  ::sigaddset(&raised, signal);
  ::sigprocmask(SIG_UNBLOCK, &raised, nullptr);
  catch_signals();
  ::tcsetattr(STDIN_FILENO, TCSANOW, &hidden);
  errno = error;
}

}  // namespace

HiddenTyping::HiddenTyping() {
  if (::tcgetattr(STDIN_FILENO, &shown) != 0) return;
  hidden = shown;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  catch_signals();
  is_hidden_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0;
  if (!is_hidden_) let_signals_go();
}

HiddenTyping::~HiddenTyping() {
  if (!is_hidden_) return;
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
  let_signals_go();
}

}  // namespace gpux::cli
