#pragma once

#include <cstddef>
#include <string>

#include "cli/interrupts.h"

namespace gpux::cli {

/// Lines of standard input, which is a terminal, a pipe or a file.
class LineReader {
 public:
  /// Result of next(): a line, an interrupt (Ctrl-C) or the end of the input.
  enum class Event { line, interrupt, end };

  /// `interrupts` may be null. A line has up to `max_bytes`.
  LineReader(Interrupts* interrupts, std::size_t max_bytes) : interrupts_(interrupts), max_bytes_(max_bytes) {}

  /// Waits. `line` is without its line feed; what is before the end without one is a line, too. At an interrupt what
  /// was typed is dropped. Errors storage; invalid_input: a line is too long.
  Event next(std::string& line);

 private:
  bool take_line(std::string& line);

  Interrupts* interrupts_;
  std::size_t max_bytes_;
  std::string held_;
  std::size_t searched_ = 0;
  bool is_at_end_ = false;
};

}  // namespace gpux::cli
