#include "cli/edited_lines.h"

#include <array>
#include <cerrno>
#include <clocale>
#include <string_view>

#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files.h"
#include "base/home.h"
#include "base/unique_fd.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

constexpr int remembered_lines = 1000;
constexpr wchar_t replacement = 0xfffd;

// libedit writes characters as the locale has them, and gpux's texts are UTF-8.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

bool is_editable() {
  const std::string type = environment_variable("TERM");
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0 && !type.empty() && type != "dumb";
}

// Bytes of the character that begins with this one, by what it says itself.
std::size_t declared_bytes(unsigned char first) {
  constexpr unsigned char two = 0xc0, three = 0xe0, four = 0xf0;
  if (first < two) return 1;
  if (first < three) return 2;
  return first < four ? 3 : 4;
}

bool is_continuation(char byte) {
  constexpr unsigned mask = 0xc0, mark = 0x80;
  return (static_cast<unsigned char>(byte) & mask) == mark;
}

// Whether more bytes may complete the character that the text begins with.
bool is_unfinished(std::string_view text) {
  std::size_t count = 1;
  while (count < text.size() && is_continuation(text[count])) ++count;
  return count == text.size() && count < declared_bytes(static_cast<unsigned char>(text.front()));
}

bool is_blank(std::wstring_view text) {
  return text.find_first_not_of(L" \t\r\n") == std::wstring_view::npos;
}

}  // namespace

std::unique_ptr<EditedLines> EditedLines::open(Interrupts& interrupts, std::size_t max_bytes) {
  if (!is_editable()) return nullptr;
  const EditLibrary* library = EditLibrary::get();
  if (library == nullptr) return nullptr;
  use_utf8();
  UniqueFd copy(::dup(STDERR_FILENO));
  std::FILE* output = copy ? ::fdopen(copy.get(), "w") : nullptr;
  if (output == nullptr) return nullptr;
  (void)copy.release();
  std::unique_ptr<EditedLines> lines(new EditedLines(*library, interrupts, max_bytes, output));
  return lines->editor_ == nullptr ? nullptr : std::move(lines);
}

EditedLines::EditedLines(const EditLibrary& library, Interrupts& interrupts, std::size_t max_bytes, std::FILE* output)
    : library_(library), interrupts_(interrupts), max_bytes_(max_bytes), output_(output) {
  editor_ = library_.init("gpux", stdin, output_, output_);
  if (editor_ == nullptr) return;
  const auto set = library_.set_option;
  set(editor_, EL_CLIENTDATA, static_cast<void*>(this));
  set(editor_, EL_PROMPT, &prompt_of);
  set(editor_, EL_GETCFN, &read_character);
  set(editor_, EL_EDITOR, L"emacs");
  constexpr std::array<std::array<const wchar_t*, 2>, 4> keys{{
      {L"\\e[3~", L"ed-delete-next-char"},
      {L"\\e[1;5C", L"em-next-word"},
      {L"\\e[1;5D", L"ed-prev-word"},
      {L"^R", L"em-inc-search-prev"},
  }};
  for (const auto& [key, action] : keys) set(editor_, EL_BIND, key, action, nullptr);
  history_ = library_.history_init();
  if (history_ == nullptr) return;
  HistEventW event{};
  library_.history(history_, &event, H_SETSIZE, remembered_lines);
  library_.history(history_, &event, H_SETUNIQUE, 1);
  set(editor_, EL_HIST, library_.history, history_);
}

EditedLines::~EditedLines() {
  if (editor_ != nullptr) library_.end(editor_);
  if (history_ != nullptr) library_.history_end(history_);
  (void)std::fclose(output_);
}

wchar_t* EditedLines::prompt_of(EditLine* editor) {
  void* self = nullptr;
  const EditLibrary* library = EditLibrary::get();
  if (library != nullptr) library->get_option(editor, EL_CLIENTDATA, &self);
  return static_cast<EditedLines*>(self)->prompt_.data();
}

int EditedLines::read_character(EditLine* editor, wchar_t* character) {
  void* self = nullptr;
  const EditLibrary* library = EditLibrary::get();
  if (library != nullptr) library->get_option(editor, EL_CLIENTDATA, &self);
  return static_cast<EditedLines*>(self)->next_character(*character);
}

// False where the character is not whole yet.
bool EditedLines::take_character(wchar_t& character) {
  if (held_.empty() || (!is_at_end_ && is_unfinished(held_))) return false;
  const std::size_t size = utf8_character(held_);
  character = size == 0 ? replacement : static_cast<wchar_t>(utf8_code_point(std::string_view(held_).substr(0, size)));
  held_.erase(0, size == 0 ? 1 : size);
  line_bytes_ += size;
  return true;
}

// libedit expects 1, 0 at the end, and -1 where the line is given up. It calls this from C: nothing is thrown.
int EditedLines::next_character(wchar_t& character) {
  std::array<char, 4096> bytes{};
  for (;;) {
    if (line_bytes_ > max_bytes_) return -1;
    if (take_character(character)) return 1;
    if (is_at_end_) return 0;
    std::array<pollfd, 2> waited{{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                  {.fd = interrupts_.descriptor(), .events = POLLIN, .revents = 0}}};
    if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) return -1;
    if (interrupts_.take()) {
      held_.clear();
      is_interrupted_ = true;
      return -1;
    }
    if (waited[0].revents == 0) continue;
    follow_window();
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return -1;
    if (count == 0) is_at_end_ = true;
    if (count > 0) held_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

// Without a handler of SIGWINCH, whose signal would go to any thread.
void EditedLines::follow_window() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return;
  if (rows_ == size.ws_row && columns_ == size.ws_col) return;
  const bool is_change = columns_ != 0;
  rows_ = size.ws_row;
  columns_ = size.ws_col;
  if (is_change) library_.resize(editor_);
}

void EditedLines::remember(const wchar_t* line) {
  if (history_ == nullptr || is_blank(line)) return;
  HistEventW event{};
  library_.history(history_, &event, H_ENTER, line);
}

LineReader::Event EditedLines::next(std::string& line, const std::string& prompt) {
  prompt_.assign(prompt.begin(), prompt.end());
  line_bytes_ = 0;
  is_interrupted_ = false;
  // libedit itself shows the prompt first: Ctrl-D in between would be lost.
  library_.set_option(editor_, EL_PREP_TERM, 1);
  int count = 0;
  errno = 0;
  const wchar_t* typed = library_.read_line(editor_, &count);
  if (is_interrupted_) return LineReader::Event::interrupt;
  if (line_bytes_ > max_bytes_) {
    throw Error(ErrorCode::invalid_input, fmt::format("a line of standard input is longer than {} bytes", max_bytes_));
  }
  if (typed == nullptr) {
    if (count < 0 && !is_at_end_) throw_file_error("read", "standard input", errno);
    return LineReader::Event::end;
  }
  remember(typed);
  line.clear();
  for (const wchar_t character : std::wstring_view(typed, static_cast<std::size_t>(count))) {
    if (character != L'\n' && character != L'\r') append_utf8(line, static_cast<char32_t>(character));
  }
  return LineReader::Event::line;
}

}  // namespace gpux::cli
