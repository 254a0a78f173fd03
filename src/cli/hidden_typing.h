#pragma once

namespace gpux::cli {

/// Hides what is typed at the terminal of standard input while it lives; nothing where that is no terminal. Signals
/// that end or stop the process show it again first. One at a time.
class HiddenTyping {
 public:
  HiddenTyping();
  ~HiddenTyping();
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

 private:
  bool is_hidden_ = false;
};

}  // namespace gpux::cli
