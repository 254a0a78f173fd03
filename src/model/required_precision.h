#pragma once

#include <span>
#include <string>

#include "gpux/options.h"
#include "gpux/runtime.h"
#include "model/load_settings.h"

namespace gpux {

/// Error message if the model runs in precision `active` instead of `requested`; empty: they agree, or a variant exists
/// that this provider or processor does not run, which the verdict says. `own` is the precision of the model itself,
/// empty where it has no weights; `by` is the flag or variable that asked.
[[nodiscard]] std::string precision_problem(const std::string& by, const std::string& requested,
                                            const std::string& active, const std::string& own,
                                            std::span<const PrecisionVariant> variants);

/// Error usage where a flag or variable asked for a precision that the model does not have and the provider does not
/// compute in. A package's or gpux.yml's precision is a preference, as is one for a provider that is not available
/// here: the verdict says where it is not met.
void require_precision(const Runtime& runtime, const LoadSettings& settings);

}  // namespace gpux
