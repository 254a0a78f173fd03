#include "runtime/worker.h"

#include <memory>
#include <string>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "generation/decoder_service.h"
#include "isolation/worker_process.h"

namespace gpux::cli {

void add_worker(CLI::App& program, Context& /*context*/) {
  struct Arguments {
    std::string model, protocol;
  };

  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = program.add_subcommand("worker", "Run a model for 'gpux serve --isolation process'");
  command->group("");
  command->add_option("MODEL", arguments->model, "shown in the list of processes");
  command->add_option("--protocol", arguments->protocol);
  command->callback([arguments] {
    runtime::run_worker(isolation::worker_socket, generation::make_decoder_service, arguments->protocol);
  });
}

}  // namespace gpux::cli
