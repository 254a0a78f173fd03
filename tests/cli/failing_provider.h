#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/leaves_threads.h"

namespace gpux::test {

/// The command line with plugins/example as the provider that is asked for.
inline std::vector<std::string> with_provider(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--provider", "example", "--provider-library",
                                     std::string("example=").append(GPUX_EXAMPLE_PROVIDER)});
  return arguments;
}

/// The same without worker processes, which the library is given one of by default.
inline std::vector<std::string> with_provider_in_thread(std::vector<std::string> arguments) {
  arguments = with_provider(std::move(arguments));
  arguments.insert(arguments.end(), {"--isolation", "thread"});
  return arguments;
}

}  // namespace gpux::test
