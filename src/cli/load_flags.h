#pragma once

#include "settings/load_request.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// `with_provider` is false where a command has several --provider of its own.
void add_load_flags(CLI::App& command, LoadRequest& request, bool with_provider = true);
/// --isolation, --preflight and --sandbox, and what the command's worker processes are.
void add_isolation_flag(CLI::App& command, LoadRequest& request, WorkerUse use);
void add_batch_axis_flag(CLI::App& command, LoadRequest& request);
void add_timeout_flag(CLI::App& command, LoadRequest& request);

}  // namespace gpux::cli
