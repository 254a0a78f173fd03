#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "diagnosis/diagnosis.h"
#include "gpux/provider_manager.h"
#include "ort/core_search.h"

namespace gpux::diagnosis {

/// A library of a vendor's, as a provider would find it.
struct VendorLibrary {
  std::string path;         ///< empty: not found; its name alone where the loader finds it
  std::string version;      ///< empty: not known
  unsigned cuda = 0;        ///< the CUDA that it is made for; 0: not known, or any
  bool is_foreign = false;  ///< it belongs to another Python environment than the provider
};

/// State of each link between an NVIDIA GPU and a session on it.
struct NvidiaFacts {
  bool has_driver = false;
  std::string driver;          ///< version; empty: not known
  std::string driver_failure;  ///< why it does not work; empty where it does
  VendorLibrary runtime, cudnn, tensorrt;
  std::string provider;  ///< path of the provider's library; empty: none
  unsigned cuda = 0;     ///< the CUDA that it is made for; 0: not known
  std::string core;      ///< path of the ONNX Runtime that it works with, or else of the one in use; empty: none
  std::string core_version;
};

/// The chain of an AMD GPU: driver, ROCm, MIGraphX.
struct AmdFacts {
  bool has_driver = false;
  std::string driver;
  bool has_device_file = false;  ///< /dev/kfd
  std::string rocm;              ///< version or folder; empty: none
  std::string migraphx;          ///< its library; empty: none
  std::string provider, core, core_version;
};

/// The chain of an Intel GPU: driver, compute runtime.
struct IntelFacts {
  std::string driver;            ///< "i915", "xe"; empty: none is bound
  bool has_device_file = false;  ///< /dev/dri
  std::string compute_runtime;   ///< OpenCL driver or Level Zero library; empty: none
  std::string provider, core, core_version;
};

/// One check for each link, from the driver to ONNX Runtime: what was found, and whether it fits the next. The first
/// that does not hold has the one command to type next. Pure.
std::vector<Check> check_chain(const NvidiaFacts& facts);
std::vector<Check> check_chain(const AmdFacts& facts);
std::vector<Check> check_chain(const IntelFacts& facts);

NvidiaFacts nvidia_facts(const Machine& machine, std::span<const ort::CoreFile> cores,
                         std::span<const ProviderReport> reports);
AmdFacts amd_facts(const Machine& machine, std::span<const ort::CoreFile> cores,
                   std::span<const ProviderReport> reports);
IntelFacts intel_facts(const Machine& machine, std::span<const ort::CoreFile> cores,
                       std::span<const ProviderReport> reports);

/// The chain of each vendor whose hardware is on this machine.
std::vector<Check> check_chains(const Machine& machine, std::span<const ort::CoreFile> cores,
                                std::span<const ProviderReport> reports);

}  // namespace gpux::diagnosis
