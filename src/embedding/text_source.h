#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "embedding/embed_all.h"
#include "gpux/error.h"

namespace gpux::embedding {

/// Where a line of a file has its text, if the text is not the whole line. One at most is given.
struct TextForm {
  std::string field;   ///< JSON objects, and the text is in this field
  std::string column;  ///< CSV with a header, and the text is in this column
  /// Texts::fields() is used: a JSON number there that 64 bits do not hold is refused instead of rounded.
  bool keeps_fields = false;
};

/// Texts, and how far they have been read.
struct Texts {
  TextSource next;
  /// 0 to 1 of the bytes; empty where their number is not known, as of a pipe. From any thread.
  std::function<std::optional<double>()> share_read;
  /// The other members of the JSON object, or columns of the record, that had the text which `next` gave last; an empty
  /// object where a text is a whole line. Called by the thread that called `next`.
  std::function<nlohmann::json()> fields;
};

/// Checks a text given as an argument. Errors usage where it is the name of a file, which was forgotten an @ more often
/// than it is a text; invalid_input where it is not UTF-8. `where` is the command or flag that errors name.
void check_text_argument(const std::string& text, const Message& where);

/// The text that a file holds: UTF-8 without its byte order mark and without a line break at its end. Error
/// invalid_input.
std::string plain_text(std::string_view content);

/// The one text that an argument means: TEXT itself, all of @FILE or, for "-", of standard input, without a line break
/// at its end. Errors not_found, storage, and of check_text_argument().
std::string one_text_of(const std::string& argument, const Message& where);

/// The texts of the arguments, in order, read lazily: TEXT itself, one text per line of @FILE, or per line of standard
/// input for "-" and without arguments. A line ends with "\n" or "\r\n" and may be empty.
/// With a field, lines are JSON objects, and the text is in this field; blank lines are skipped. With a column, each
/// file is CSV (RFC 4180) with its own header, and the text is in this column.
/// Errors usage where standard input is a terminal and nothing else is given, or a form is asked of TEXT; and of
/// check_text_argument(). The source throws errors not_found, storage; invalid_input with file and line, also for bytes
/// that are not UTF-8. A byte order mark of UTF-8 at the beginning of a file is skipped.
Texts texts_of(std::vector<std::string> arguments, TextForm form);

}  // namespace gpux::embedding
