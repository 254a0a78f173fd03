#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/made_inputs.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The flags that say what inputs are made up, as typed.
struct SyntheticFlags {
  std::vector<std::string> dimensions;  ///< --dim NAME=SIZE
  std::uint64_t seed = 0;               ///< --seed
};

void add_synthetic_flags(CLI::App& command, SyntheticFlags& flags);

/// Inputs that nobody gave. Error usage where a size is none or names no free dimension; those of make_inputs().
MadeInputs make_inputs(const SyntheticFlags& flags, OpenModel& model);

}  // namespace gpux::cli
