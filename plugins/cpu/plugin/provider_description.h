#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <onnxruntime_cxx_api.h>

#include "plugin/fused_provider.h"
#include "plugin/session_settings.h"

namespace gpux_cpu {

/// The execution provider of a library.
struct ProviderDescription {
  const char* name;  ///< as ONNX Runtime registers it
  const char* version;
  std::span<const std::string_view> precisions;  ///< what the option "precision" accepts
  /// The kernels that this processor runs. Throws std::invalid_argument for an environment variable that names others.
  std::string_view (*instruction_set)();
  /// Throws Ort::Exception.
  std::unique_ptr<FusedProvider> (*make)(const SessionSettings& settings, const OrtSessionOptions* options,
                                         const OrtLogger* logger);
};

/// Description of this library's provider. Defined by each library.
const ProviderDescription& provider_description() noexcept;

}  // namespace gpux_cpu
