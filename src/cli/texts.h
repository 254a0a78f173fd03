#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "embedding/embed_all.h"

namespace gpux::cli {

/// What a file's lines are, where they are not the texts. One at most is given.
struct TextForm {
  std::string field;   ///< JSON objects, and the text is in this field
  std::string column;  ///< CSV with a header, and the text is in this column
};

/// Texts, and how far they have been read.
struct Texts {
  embedding::TextSource next;
  /// 0 to 1 of the bytes; empty where their number is not known, as of a pipe. From any thread.
  std::function<std::optional<double>()> share_read;
};

/// The texts that arguments mean, in order, read as they are asked for: TEXT itself, a text for each line of @FILE, or
/// of standard input for "-" and for no argument at all. A line is what stands before "\n" or "\r\n", be it empty.
/// With a field the lines are JSON objects, and the text is what stands in it; blank lines are skipped. With a column
/// each file is CSV (RFC 4180) with a header of its own, and the text is the field below that name.
/// Error usage where standard input is a terminal and nothing else is given, or a form is asked of TEXT. The source
/// throws errors not_found, storage; invalid_input with file and line.
Texts texts_of(std::vector<std::string> arguments, TextForm form);

}  // namespace gpux::cli
