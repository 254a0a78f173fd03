#pragma once

#include <string_view>

namespace gpux {

/// Makes the standard streams of a program safe to use. A descriptor of 0, 1 and 2 that is closed becomes /dev/null, so
/// that no file that is opened later takes its place: reading 0 and writing 1 then fail with EBADF, writing 2 is
/// discarded. A reader that has gone, and a limit of the size of files (RLIMIT_FSIZE), fail the write instead of ending
/// the process (SIGPIPE and SIGXFSZ are ignored).
/// To be called before anything opens a descriptor, static constructors included.
void prepare_standard_streams() noexcept;

/// Writes a message to standard error. What cannot be written is dropped.
void write_to_standard_error(std::string_view text) noexcept;

}  // namespace gpux
