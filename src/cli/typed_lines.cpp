#include "cli/typed_lines.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::cli {
namespace {

constexpr std::string_view marks = "\"\"\"", blanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

}  // namespace

void TypedLines::clear() {
  text_.clear();
  is_block_ = is_continued_ = false;
}

std::optional<TypedInput> TypedLines::add(std::string_view line) {
  if (text_.size() + line.size() > max_bytes) {
    clear();
    throw Error(ErrorCode::invalid_input, fmt::format("the message is longer than {} MiB", max_bytes >> 20U));
  }
  const bool begins_block = !is_open() && line.starts_with(marks);
  if (begins_block) line.remove_prefix(marks.size());
  if (begins_block || is_block_) {
    is_block_ = true;
    const std::string_view end = line.substr(0, line.find_last_not_of(blanks) + 1);
    if (end.ends_with(marks)) {
      text_ += end.substr(0, end.size() - marks.size());
      return finish(false);
    }
    // A line feed after the marks that begin a block is not part of the message.
    if (!begins_block || !trimmed(line).empty()) text_.append(line).push_back('\n');
    return std::nullopt;
  }
  is_continued_ = line.ends_with('\\');
  if (is_continued_) {
    line.remove_suffix(1);
    text_.append(line).push_back('\n');
    return std::nullopt;
  }
  text_ += line;
  return finish(true);
}

std::optional<TypedInput> TypedLines::finish(bool may_be_command) {
  std::string text = std::exchange(text_, {});
  clear();
  if (trimmed(text).empty()) return std::nullopt;
  if (!may_be_command || text.front() != '/') return TypedInput{.command = {}, .text = std::move(text)};
  const std::size_t end = std::min(text.find_first_of(blanks), text.size());
  return TypedInput{.command = text.substr(1, end - 1), .text = std::string(trimmed(text.substr(end)))};
}

}  // namespace gpux::cli
