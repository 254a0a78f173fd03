#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

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

/// Inputs made up from the signature. Error usage where a size is none or names no free dimension.
NamedValues make_inputs(const SyntheticFlags& flags, const Signature& signature);

}  // namespace gpux::cli
