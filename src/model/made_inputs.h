#pragma once

#include <cstdint>
#include <optional>
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

/// Without `sizes`: the tokens of recorded texts where the model reads texts. Else synthetic_inputs() of these sizes,
/// then those of gpux.yml and those that preprocessing makes of images; where nothing else is said of the input that
/// takes images, it is an image of random pixels as preprocessing prepares it. Reproducible from `seed`. Errors of
/// open_inputs() and of synthetic_inputs().
MadeInputs make_inputs(OpenModel& model, const std::vector<std::pair<std::string, std::int64_t>>& sizes,
                       std::uint64_t seed);

/// The error of a run with these inputs, with the flag that gives the sizes that were assumed; empty where they are not
/// the reason: none were, or it is neither invalid_input nor invalid_model.
std::optional<Error> naming_assumed_sizes(const Error& error, const MadeInputs& inputs);

}  // namespace gpux
