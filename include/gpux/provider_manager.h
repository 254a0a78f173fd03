#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/export.h"
#include "gpux/verdict.h"

namespace gpux {

/// The requirements of one execution provider, and whether it can be used on this machine.
struct ProviderReport {
  std::string id;                    ///< gpux's name: "cuda"
  std::vector<std::string> aliases;  ///< other accepted names
  std::string ort_name;              ///< ONNX Runtime's name, in the spelling of the loaded library if one is loaded
  std::string kind;                  ///< "gpu", "npu" or "cpu": the hardware it is made for
  std::string description;
  std::vector<std::string> systems;  ///< "linux", "windows", "macos", "android"
  bool available = false;
  bool accelerated = false;  ///< available on a GPU or NPU, not on a processor or software adapter
  std::string reason;        ///< if not available: why, in one sentence
  Message remedy;            ///< if not available: what to do about it
  std::string note;          ///< if available: what else is worth knowing; may be empty
  std::vector<Device> devices;
  std::string source;                     ///< "built in", "bridge", "plugin" or empty
  std::filesystem::path library;          ///< bridge or plugin library
  std::filesystem::path core;             ///< the ONNX Runtime library that it requires; empty: any
  std::vector<std::string> option_names;  ///< ONNX Runtime's options that gpux knows for it
};

/// A provider library that the user names: NAME=PATH.
struct ProviderLibrary {
  std::string name;
  std::filesystem::path path;
};

/// Detects which execution providers this machine can use. Thread-safe.
class GPUX_API ProviderManager {
 public:
  /// `libraries`: further provider libraries that the user names.
  explicit ProviderManager(std::vector<ProviderLibrary> libraries = {});

  /// All known providers, in the default order, and those of the user's libraries. Opens ONNX Runtime.
  [[nodiscard]] std::vector<ProviderReport> providers() const;

  /// The ids that a request would use, in order; the CPU is last if it is part of the request.
  /// Error usage if the request names an unknown provider.
  [[nodiscard]] std::vector<std::string> select(std::string_view request) const;

  /// The first of these ids.
  [[nodiscard]] std::string best_provider(std::string_view request = "auto") const;

 private:
  std::vector<ProviderLibrary> libraries_;
};

/// An ONNX Runtime library.
struct RuntimeLibrary {
  std::string version;
  std::filesystem::path path;
  std::string origin;  ///< where it was found: "beside gpux", "GPUX_HOME", "Python package", "system", …
  unsigned api_version = 0;
};

/// Version and file of the ONNX Runtime that this process uses. Opens it if none is open yet.
/// Error provider_unavailable if none can be used.
GPUX_API RuntimeLibrary runtime_library();

}  // namespace gpux
