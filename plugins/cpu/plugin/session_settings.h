#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include <onnxruntime_cxx_api.h>

namespace gpux_cpu {

/// Settings of the provider for a session.
struct SessionSettings {
  std::optional<std::size_t> precision;  ///< index in ProviderDescription::precisions; empty: not set
  std::size_t threads = 1;               ///< threads of ONNX Runtime that a run can use
};

/// The session's configuration entries.
std::unordered_map<std::string, std::string> session_entries(const OrtSessionOptions* options);

/// Reads the options of this library's provider, and "gpux.threads": a host sets it to the number of its intra-op
/// threads, as ONNX Runtime tells providers nothing of these. Without it, the processors that this process may use.
/// Throws Ort::Exception for an option that the provider does not know, a precision that it has not, and threads that
/// are no number from 1 to 65536.
SessionSettings session_settings(const OrtSessionOptions* options);

}  // namespace gpux_cpu
