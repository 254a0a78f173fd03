#pragma once

#include <string>
#include <vector>

namespace gpux::cli {

/// Starts this program again with `arguments`, in its own process session, and returns the first line of its standard
/// output. The flag of leave_foreground() informs the child.
/// Errors: those that the child ends with before it.
std::string start_in_background(std::vector<std::string> arguments);

/// In that child, once it has said its line: lets go of the streams it was started with.
void leave_foreground();

}  // namespace gpux::cli
