#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/export.h"
#include "gpux/verdict.h"

namespace gpux {

/// What one execution provider needs and whether it can be used on this machine.
struct ProviderReport {
  std::string id;                    ///< gpux's name: "cuda"
  std::vector<std::string> aliases;  ///< other names it answers to
  std::string ort_name;              ///< ONNX Runtime's name, as the loaded library spells it where one is loaded
  std::string kind;                  ///< "gpu", "npu" or "cpu": the hardware it is made for
  std::string description;
  std::vector<std::string> systems;  ///< "linux", "windows", "macos", "android"
  bool available = false;
  bool accelerated = false;  ///< available on a GPU or NPU, not on a processor or software adapter
  std::string reason;        ///< where not available: why, in one sentence
  std::string remedy;        ///< and what to do about it
  std::vector<Device> devices;
  std::string source;                     ///< "built in", "bridge", "plugin" or empty
  std::filesystem::path library;          ///< bridge or plugin library
  std::filesystem::path core;             ///< the ONNX Runtime library it has to run with; empty: any
  std::vector<std::string> option_names;  ///< ONNX Runtime's options that gpux knows for it
};

/// A provider library of the user's own: NAME=PATH.
struct ProviderLibrary {
  std::string name;
  std::filesystem::path path;
};

/// Finds out which execution providers this machine can use. Thread-safe.
class GPUX_API ProviderManager {
 public:
  explicit ProviderManager(std::vector<ProviderLibrary> libraries = {});

  /// Every provider gpux knows, in the default order, and those of the user's own libraries. Opens ONNX Runtime.
  [[nodiscard]] std::vector<ProviderReport> providers() const;

  /// The ids that a request would use, in order, the CPU last where it is part of the request.
  /// Error usage where the request names no known provider.
  [[nodiscard]] std::vector<std::string> select(std::string_view request) const;

  /// The first of them.
  [[nodiscard]] std::string best_provider(std::string_view request = "auto") const;

 private:
  std::vector<ProviderLibrary> libraries_;
};

/// Version and file of the ONNX Runtime that this process uses, opening it where none is open yet.
/// Error provider_unavailable where none fits.
struct RuntimeLibrary {
  std::string version;
  std::filesystem::path path;
  std::string origin;  ///< where it was found: "beside gpux", "GPUX_HOME", "Python package", "system", …
  unsigned api_version = 0;
};

GPUX_API RuntimeLibrary runtime_library();

}  // namespace gpux
