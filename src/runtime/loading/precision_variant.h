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

/// Note for the verdict if the provider itself converts a float32 model to float16, which was not compared with the
/// model; else empty. `computed`: precision of the session. Pure.
std::string unmeasured_conversion(const std::string& provider, const std::string& requested,
                                  const std::string& models_own, const std::string& computed);

/// The variant of that precision for accelerators, or null. Points into the options.
const PrecisionVariant* accelerator_variant_of(const LoadOptions& options, const std::string& precision);

/// Precision of most of the model's weights: "fp32", "int8", …; empty if it has no weights of a known precision.
std::string precision_of(const ModelInfo& info);

}  // namespace gpux::runtime
