#pragma once

#include <string>
#include <vector>

#include "gpux/options.h"

/// Which of a model's variants in other precisions there are to run.
namespace gpux::runtime {

/// LoadOptions::precision where the quickest may be of any.
inline constexpr const char* any_precision = "any";

/// Whether this machine's CPU can.
bool can_run(const PrecisionVariant& variant);

/// The CPU's variant of that precision, or null. Points into the options.
const PrecisionVariant* variant_of(const LoadOptions& options, const std::string& precision);

/// That of accelerators, or null.
const PrecisionVariant* accelerator_variant_of(const LoadOptions& options, const std::string& precision);

/// The CPU with a variant of the model, as one of the candidates.
struct VariantCandidate {
  std::string name;  ///< "cpu in int8"
  const PrecisionVariant* variant;
};

/// Those near enough to the model, where any precision will do.
std::vector<VariantCandidate> variant_candidates(const LoadOptions& options);

}  // namespace gpux::runtime
