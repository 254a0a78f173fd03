#pragma once

#include <string>
#include <vector>

namespace gpux::cli {

/// Starts this program again with `arguments`, in a session of its own, and waits for the first line on its standard
/// output, which is given back. The child is told so by leave_foreground()'s flag.
/// Errors: those that the child ends with before it.
std::string start_in_background(std::vector<std::string> arguments);

/// In that child, once it has said its line: lets go of the streams it was started with.
void leave_foreground();

}  // namespace gpux::cli
