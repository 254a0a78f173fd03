#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpux/error.h"
#include "model/open_model.h"

namespace gpux {

/// Inputs of one run that nobody gave.
struct MadeInputs {
  NamedValues values;
  std::vector<std::string> assumed;  ///< free dimensions that are 1 because nothing says another size
};

/// Without `sizes`: the tokens of recorded texts where the model reads texts, an image of random pixels as
/// preprocessing prepares it where it takes images, and gpux.yml's sizes of free dimensions. With them, and for all
/// other inputs: synthetic_inputs(). Reproducible from `seed`. Errors of open_inputs() and of synthetic_inputs().
MadeInputs make_inputs(OpenModel& model, const std::vector<std::pair<std::string, std::int64_t>>& sizes,
                       std::uint64_t seed);

/// The error of a run with these inputs, with the flag that gives the sizes that were assumed where they may be the
/// reason: invalid_input and invalid_model.
Error naming_assumed_sizes(const Error& error, const MadeInputs& inputs);

}  // namespace gpux
