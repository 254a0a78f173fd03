#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpux::manual {

/// The words that the option's value is one of; empty if there is no such list.
std::vector<std::string> choices_of(const CLI::Option& option);

/// The placeholder for an option's value, as the help, the manual pages and the completion have it: "PORT", "FILE",
/// "on|off", "N"; empty for a flag without a value.
std::string placeholder(const CLI::Option& option);

/// Whether the placeholder stands for the name of a file or a folder.
bool takes_path(const CLI::Option& option);

/// The option's description, with its range and the options that it needs or excludes:
/// "worker processes (1 to 64) (not with --threads)".
std::string full_description(const CLI::Option& option);

/// Throws Error internal if a placeholder is declared for a flag that no command has.
void require_known_placeholders(const CLI::App& program);

}  // namespace gpux::manual
