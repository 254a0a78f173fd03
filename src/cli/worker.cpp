#include "runtime/worker.h"

#include <memory>
#include <string>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "generation/decoder_service.h"
#include "isolation/worker_process.h"

namespace gpux::cli {

void add_worker(CLI::App& program, Context& /*context*/) {
  auto model = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("worker", "Run a model for 'gpux serve --isolation process'");
  command->group("");
  command->add_option("MODEL", *model, "shown in the list of processes");
  auto protocol = std::make_shared<std::string>();
  command->add_option("--protocol", *protocol);
  command->callback(
      [protocol] { runtime::run_worker(isolation::worker_socket, generation::make_decoder_service, *protocol); });
}

}  // namespace gpux::cli
