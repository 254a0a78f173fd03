#pragma once

#include <filesystem>
#include <optional>

#include "gpux/model_info.h"
#include "gpux/options.h"

namespace gpux::evaluation {

/// Compares what gpux's own provider for a model of this kind (a decoder, or an encoder that reads texts) makes of
/// recorded texts with what the CPU provider makes of them, so that auto may take it later. Loads the model twice, one
/// after the other. Whatever keeps the provider from being compared is ComparedProvider::difference; whether the
/// outputs agree is provider::reason_against()'s to say. Empty: gpux has no provider for the model, it is not on this
/// machine, the processor has no AVX2, or another provider than auto is asked for. Errors of the model on the CPU
/// provider.
std::optional<ComparedProvider> compare_own_provider(const std::filesystem::path& onnx_file, const ModelInfo& info,
                                                     const LoadOptions& options);

}  // namespace gpux::evaluation
