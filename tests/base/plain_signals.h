#pragma once

#include <cstdlib>
#include <string>

namespace gpux::test {

/// In the programs that a test starts, SIGSEGV and SIGABRT end the process as they do without sanitizers, whose
/// handlers exit with a code instead. Before the first of them is started.
inline void leave_signals_to_programs() {
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* given = std::getenv(name);
    const std::string options = given == nullptr ? std::string() : std::string(given) + ":";
    ::setenv(name, (options + "handle_segv=0:handle_abort=0:handle_sigbus=0").c_str(), 1);
  }
}

}  // namespace gpux::test
