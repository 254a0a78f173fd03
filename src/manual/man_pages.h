#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpux::manual {

/// One manual page.
struct ManPage {
  std::string file;  ///< "gpux-run.1"
  std::string text;  ///< mdoc(7), UTF-8
};

/// The manual pages of the program and of each of its commands, from the table that `--help` prints: gpux(1),
/// gpux-run(1), …. `program` has all commands; `date` is "2026-01-31". Commands and flags that the help hides are left
/// out. Pure. Error usage where `date` is none.
std::vector<ManPage> man_pages(const CLI::App& program, const std::string& date);

}  // namespace gpux::manual
