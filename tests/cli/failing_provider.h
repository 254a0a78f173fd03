#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace gpux::test {

/// Of a server that will leave a hanging device behind, and its threads with it, which ThreadSanitizer would report.
inline std::pair<std::string, std::string> leaves_threads() {
  const char* options = std::getenv("TSAN_OPTIONS");
  return {"TSAN_OPTIONS", std::string(options == nullptr ? "" : options) + " report_thread_leaks=0"};
}

/// The command line with plugins/example as the provider that is asked for.
inline std::vector<std::string> with_provider(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--provider", "example", "--provider-library",
                                     std::string("example=").append(GPUX_EXAMPLE_PROVIDER)});
  return arguments;
}

}  // namespace gpux::test
