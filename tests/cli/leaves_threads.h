#pragma once

#include <cstdlib>
#include <string>
#include <utility>

namespace gpux::test {

/// Of a server that will leave hanging work behind, and its threads with it, which ThreadSanitizer would report.
inline std::pair<std::string, std::string> leaves_threads() {
  const char* options = std::getenv("TSAN_OPTIONS");
  return {"TSAN_OPTIONS", std::string(options == nullptr ? "" : options) + " report_thread_leaks=0"};
}

}  // namespace gpux::test
