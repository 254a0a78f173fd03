#pragma once

#include "model/input_files.h"

namespace CLI {
class App;
}

namespace gpux::cli {

void add_input_flags(CLI::App& command, InputFlags& flags);

}  // namespace gpux::cli
