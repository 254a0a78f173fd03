#include "manual/man_pages.h"

#include <filesystem>
#include <memory>

#include <CLI/App.hpp>

#include "base/files.h"
#include "cli/command.h"

namespace gpux::cli {
namespace {

struct ManPageFlags {
  std::string folder, date;
};

void write_man_pages(const CLI::App& program, const ManPageFlags& flags) {
  std::filesystem::create_directories(flags.folder);
  for (const manual::ManPage& page : manual::man_pages(program, flags.date)) {
    write_file_atomically(std::filesystem::path(flags.folder) / page.file, page.text);
  }
}

}  // namespace

void add_man_pages(CLI::App& program, Context& /*context*/) {
  auto flags = std::make_shared<ManPageFlags>();
  CLI::App* command = program.add_subcommand("man-pages", "Write the manual pages; for the build");
  command->group("");
  command->add_option("FOLDER", flags->folder)->required();
  command->add_option("--date", flags->date)->required();
  command->callback([flags, &program] { write_man_pages(program, *flags); });
}

}  // namespace gpux::cli
