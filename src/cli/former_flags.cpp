#include "cli/former_flags.h"

#include <algorithm>
#include <array>

namespace gpux::cli {
namespace {

// docs/command-line.md has this table too.
constexpr std::array renamed{
    FormerFlag{"", "--optimization", "--optimization-level"},
    FormerFlag{"run", "--nonfinite", "--non-finite"},
    FormerFlag{"run", "--select", "--output-name"},
    FormerFlag{"search", "--in", "--index"},
    FormerFlag{"search", "--top", "--top-k"},
    FormerFlag{"search", "--vector", "--query-vector"},
};

// The first word that is neither a flag nor the value of one that may precede a command.
std::string_view command_of(std::span<const std::string> words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--log-format") {
      ++i;
    } else if (!words[i].starts_with('-')) {
      return words[i];
    }
  }
  return {};
}

}  // namespace

std::span<const FormerFlag> former_flags() noexcept {
  return renamed;
}

std::vector<std::string> with_present_flags(std::span<const std::string> words) {
  std::vector<std::string> out(words.begin(), words.end());
  const std::string_view command = command_of(words);
  for (std::string& word : out) {
    if (word == "--") break;
    const std::size_t size = std::min(word.find('='), word.size());
    const auto found = std::ranges::find_if(renamed, [&](const FormerFlag& flag) {
      return (flag.command.empty() || flag.command == command) && flag.former == std::string_view(word).substr(0, size);
    });
    if (found != renamed.end()) word.replace(0, size, found->present);
  }
  return out;
}

}  // namespace gpux::cli
