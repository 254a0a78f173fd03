#include <memory>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "daemon/state_file.h"
#include "project/project_schema.h"

namespace gpux::cli {

void add_schema(CLI::App& program, Context& context) {
  auto of_daemon = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("schema", "Print the JSON schema of gpux.yml, for editors and checkers");
  command->add_flag("--daemon", *of_daemon, "the schema of the state file of 'gpux daemon'");
  command->add_flag("--json", context.json, "JSON on standard output (always)");
  command->callback([of_daemon] {
    std::string schema = *of_daemon ? json_schema(daemon::state_schema()) : json_schema();
    schema.pop_back();  // its line feed: print_data() adds one
    print_data(schema);
  });
}

}  // namespace gpux::cli
