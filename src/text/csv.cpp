#include "text/csv.h"

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux::text {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

CsvReader::CsvReader(std::FILE* file, std::string name) : file_(file), name_(std::move(name)) {}

std::string CsvReader::place() const {
  return fmt::format("{}:{}", name_, record_line_);
}

void CsvReader::refuse(std::string_view what) const {
  throw Error(ErrorCode::invalid_input, fmt::format("{}:{}: {}", name_, line_, what));
}

void CsvReader::refuse_encoding() {
  std::string bytes(scan_.open());
  const std::uint64_t begin = bytes_ - bytes.size();
  // Byte order marks have up to four bytes.
  for (int character = 0; begin == 0 && bytes.size() < 4 && (character = ::getc_unlocked(file_)) != EOF;) {
    bytes += static_cast<char>(character);
  }
  refuse(utf8_problem(bytes, begin));
}

void CsvReader::refuse_nul() {
  std::string bytes(1, '\0');
  const std::uint64_t begin = bytes_ - 1;
  for (int character = 0; bytes.size() < 16 && (character = ::getc_unlocked(file_)) != EOF;) {
    bytes += static_cast<char>(character);
  }
  refuse(file_text_problem(bytes, begin));
}

int CsvReader::take_byte() {
  if (const auto character = std::exchange(put_back_, std::nullopt)) return *character;
  const int character = ::getc_unlocked(file_);
  if (character != EOF) {
    ++bytes_;
    if (!scan_.take(static_cast<unsigned char>(character))) refuse_encoding();
    if (character == '\0') refuse_nul();
  } else if (std::ferror(file_) != 0) {
    throw_file_error("read", name_, errno);
  } else if (!scan_.open().empty()) {
    refuse_encoding();
  }
  return character;
}

int CsvReader::take() {
  const int character = take_byte();
  if (character != '\r') return character;
  const int behind = take_byte();
  if (behind == '\n') return behind;
  if (behind != EOF) put_back_ = behind;
  return character;
}

int CsvReader::read_quoted(std::string& field) {
  const std::uint64_t opened = line_;
  quoted_ = true;
  for (;;) {
    // As it stands, so that a "\r\n" within the quotes stays one.
    const int character = take_byte();
    if (character == EOF) {
      line_ = opened;
      refuse("a quote opens here and is not closed");
    }
    if (character == '\n') ++line_;
    if (character != '"') {
      field += static_cast<char>(character);
      continue;
    }
    const int behind = take();
    if (behind == ',' || behind == '\n' || behind == EOF) return behind;
    if (behind != '"') refuse("a closing quote is followed by text; a quote within a field is written \"\"");
    field += '"';
  }
}

int CsvReader::read_field(std::string& field) {
  const bool is_first = !std::exchange(begun_, true);
  field.clear();
  quoted_ = false;
  for (;;) {
    const int character = take();
    const bool ends = character == ',' || character == '\n' || character == EOF;
    if (is_first && (ends || character == '"') && field.starts_with(byte_order_mark)) {
      field.erase(0, byte_order_mark.size());
    }
    if (ends) return character;
    if (character == '"') {
      if (!field.empty()) refuse("a quote stands within a field that does not begin with one");
      return read_quoted(field);
    }
    field += static_cast<char>(character);
  }
}

bool CsvReader::next(std::vector<std::string>& fields) {
  for (;;) {
    fields.clear();
    record_line_ = line_;
    int end = 0;
    do {
      fields.emplace_back();
      end = read_field(fields.back());
    } while (end == ',');
    if (end == '\n') ++line_;
    if (fields.size() > 1 || !fields.front().empty() || quoted_) return true;
    if (end == EOF) return false;
  }
}

}  // namespace gpux::text
