#include "cli/child.h"

#include <algorithm>

#include <CLI/App.hpp>
#include <fmt/format.h>

namespace gpux::cli {

std::vector<std::string> typed_arguments(const CLI::App& command, const std::vector<std::string>& except) {
  std::vector<std::string> flags, positionals;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      for (const std::string& word : option->results()) positionals.push_back(word);
      continue;
    }
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (std::find(except.begin(), except.end(), name) != except.end()) continue;
    for (const std::string& word : option->results()) flags.push_back(fmt::format("--{}={}", name, word));
  }
  if (positionals.empty()) return flags;
  // Behind "--", as a MODEL may begin with a dash.
  flags.emplace_back("--");
  flags.insert(flags.end(), positionals.begin(), positionals.end());
  return flags;
}

}  // namespace gpux::cli
