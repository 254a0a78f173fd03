#pragma once

#include <cstdlib>
#include <string>

namespace gpux::test {

/// In the programs that a test starts, SIGSEGV and SIGABRT end the process as they do without AddressSanitizer, whose
/// handlers exit with a code instead. Before the first of them is started.
inline void leave_signals_to_programs() {
  const char* given = std::getenv("ASAN_OPTIONS");
  const std::string options = given == nullptr ? std::string() : std::string(given) + ":";
  ::setenv("ASAN_OPTIONS", (options + "handle_segv=0:handle_abort=0:handle_sigbus=0").c_str(), 1);
}

}  // namespace gpux::test
