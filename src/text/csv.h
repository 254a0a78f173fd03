#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"

namespace gpux::text {

/// The records of a CSV file as RFC 4180 has them, read one at a time: fields between commas; a field in quotes may
/// hold commas, line breaks and, doubled, quotes. Lines end in "\n" or "\r\n", the last may end with the file. A line
/// with nothing in it is no record. A byte order mark at the beginning is skipped.
class CsvReader {
 public:
  /// `file` is open for reading and stays the caller's; `name` is what errors call it.
  CsvReader(std::FILE* file, std::string name);

  /// Puts the next record's fields in their place; false: there is none. Errors storage; invalid_input with file and
  /// line for a quote within a field that does not begin with one, text behind a closing quote, a quote not closed,
  /// bytes that are not UTF-8, and NUL characters.
  bool next(std::vector<std::string>& fields);

  /// "items.csv:3": the line that the last record began on.
  [[nodiscard]] std::string place() const;

  /// Bytes read so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  int take_byte();
  /// "\r\n" is given as "\n".
  int take();
  /// Reads one field; returns the character that ended it: a comma, a line feed or EOF.
  int read_field(std::string& field);
  int read_quoted(std::string& field);
  [[noreturn]] void refuse(std::string_view what) const;
  /// Throws: the last character read is not UTF-8.
  [[noreturn]] void refuse_encoding();
  /// Throws: the last character read is a NUL.
  [[noreturn]] void refuse_nul();

  std::FILE* file_;
  std::string name_;
  std::uint64_t line_ = 1, record_line_ = 0, bytes_ = 0;
  bool quoted_ = false;  // the last field was
  bool begun_ = false;   // behind the first field
  Utf8Scan scan_;
  std::optional<int> put_back_;
};

}  // namespace gpux::text
