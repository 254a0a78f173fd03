#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::cli {

/// A flag that was renamed. The former name is accepted until gpux 1.0, without being in the help.
struct FormerFlag {
  std::string_view command;  ///< "search"; empty: every command
  std::string_view former;   ///< "--top"
  std::string_view present;  ///< "--top-k"
};

std::span<const FormerFlag> former_flags() noexcept;

/// The words of a command line (the first is the program) with former flags of its command under their present names,
/// `--former=VALUE` too. Words after `--` are left. Pure.
std::vector<std::string> with_present_flags(std::span<const std::string> words);

}  // namespace gpux::cli
