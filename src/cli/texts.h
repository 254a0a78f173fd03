#pragma once

#include <string>
#include <vector>

#include "embedding/embed_all.h"

namespace gpux::cli {

/// The texts that arguments mean, in order, read as they are asked for: TEXT itself, a text for each line of @FILE, or
/// of standard input for "-" and for no argument at all. A line is what stands before "\n" or "\r\n", be it empty.
/// With a `field` the lines are JSON objects, and the text is what stands in it; blank lines are skipped.
/// Error usage where standard input is a terminal and nothing else is given, or a `field` is asked of TEXT. The source
/// throws errors not_found, storage; invalid_input with file and line.
embedding::TextSource texts_of(std::vector<std::string> arguments, std::string field);

}  // namespace gpux::cli
