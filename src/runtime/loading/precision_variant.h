#pragma once

#include <string>

#include "gpux/model_info.h"
#include "gpux/options.h"

/// Which of a model's variants in other precisions there are to run.
namespace gpux::runtime {

/// LoadOptions::precision where the quickest may be of any.
inline constexpr const char* any_precision = "any";

/// Whether this machine's CPU can.
bool can_run(const PrecisionVariant& variant);

/// The CPU's variant of that precision, or null. Points into the options.
const PrecisionVariant* variant_of(const LoadOptions& options, const std::string& precision);

/// What the verdict says where a provider makes float16 of a float32 model itself, which nobody has compared with the
/// model; else empty. `computed`: what the session computes in. Pure.
std::string unmeasured_conversion(const std::string& provider, const std::string& requested,
                                  const std::string& models_own, const std::string& computed);

/// That of accelerators, or null.
const PrecisionVariant* accelerator_variant_of(const LoadOptions& options, const std::string& precision);

/// What most of the model's weights are: "fp32", "int8", …; empty where it has none of these.
std::string precision_of(const ModelInfo& info);

}  // namespace gpux::runtime
