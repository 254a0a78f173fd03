#include "cli/command.h"
#include "model/project_schema.h"

namespace gpux::cli {

void add_schema(CLI::App& program, Context& context) {
  CLI::App* verb = program.add_subcommand("schema", "The JSON schema of gpux.yml, for editors and checkers");
  verb->add_flag("--json", context.json, "JSON on standard output, which it is in any case");
  verb->callback([] {
    std::string schema = json_schema();
    schema.pop_back();  // its line feed: print_data() adds one
    print_data(schema);
  });
}

}  // namespace gpux::cli
