#pragma once

#include <string>

#include "model/load_settings.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// `with_provider` is false where a command has several --provider of its own.
void add_load_flags(CLI::App& command, LoadFlags& flags, bool with_provider = true);
void add_batch_axis_flag(CLI::App& command, std::string& batch_axis);
void add_timeout_flag(CLI::App& command, std::string& timeout);

}  // namespace gpux::cli
