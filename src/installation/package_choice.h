#pragma once

#include <string>

#include "base/machine.h"
#include "installation/packages.h"

namespace gpux::installation {

/// Facts of a machine that decide which packages work on it.
struct MachineFacts {
  std::string nvidia_driver;            ///< version; empty: there is none, or it does not tell
  unsigned min_compute_capability = 0;  ///< lowest compute capability of the NVIDIA GPUs, 61 for 6.1; 0: not known
  std::string core;                     ///< version of the ONNX Runtime that plugins are loaded into; empty: none
};

struct PackageChoice {
  const PackageSet* set = nullptr;
  std::string reason;  ///< why these, as a sentence without a full stop; empty: there is no choice
};

/// The packages that bring what is wanted and fit the machine: those of the newest CUDA that the driver and the GPUs
/// support, or that the wanted version of ONNX Runtime is for. Errors as of find_package_set(); provider_unavailable
/// where none fit, with the one command to type next; usage for a version that the name does not have. Pure.
PackageChoice choose_packages(const Wanted& wanted, const MachineFacts& facts);

MachineFacts machine_facts(const Machine& machine);

}  // namespace gpux::installation
