#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/edit_library.h"
#include "cli/interrupts.h"
#include "cli/line_reader.h"

namespace gpux::cli {

/// Lines that a user types on a terminal, with keys that edit them (libedit's, as of Emacs) and the earlier ones behind
/// the arrow keys. The prompt and the line are shown on standard error.
class EditedLines {
 public:
  /// Null where lines cannot be edited: standard input or standard error is no terminal, TERM is not set or "dumb", or
  /// there is no libedit. A line has up to `max_bytes`. One at a time in a process; it sets the locale of characters.
  static std::unique_ptr<EditedLines> open(Interrupts& interrupts, std::size_t max_bytes);

  ~EditedLines();
  EditedLines(const EditedLines&) = delete;
  EditedLines& operator=(const EditedLines&) = delete;

  /// The next line, as LineReader::next(). `prompt` is ASCII. The terminal is in its usual mode before and after.
  LineReader::Event next(std::string& line, const std::string& prompt);

 private:
  EditedLines(const EditLibrary& library, Interrupts& interrupts, std::size_t max_bytes, std::FILE* output);

  static int read_character(EditLine* editor, wchar_t* character);
  static wchar_t* prompt_of(EditLine* editor);

  int next_character(wchar_t& character);
  bool take_character(wchar_t& character);
  void follow_window();
  void remember(const wchar_t* line);

  const EditLibrary& library_;
  Interrupts& interrupts_;
  std::size_t max_bytes_;
  std::FILE* output_;
  EditLine* editor_ = nullptr;
  HistoryW* history_ = nullptr;
  std::wstring prompt_;
  std::string held_;            // bytes that were read and not taken
  std::size_t line_bytes_ = 0;  // of the line that is typed
  int rows_ = 0, columns_ = 0;
  bool is_at_end_ = false, is_interrupted_ = false;
};

}  // namespace gpux::cli
