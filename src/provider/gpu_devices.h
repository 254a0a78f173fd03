#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "gpux/verdict.h"
#include "provider/nvml.h"

namespace gpux::provider {

/// The GPUs that CUDA numbers from 0 in a process, in its order. `visible`: CUDA_VISIBLE_DEVICES; `order`:
/// CUDA_DEVICE_ORDER. CUDA has the fastest first unless that is PCI_BUS_ID: GPUs of several kinds are then described
/// only as far as it is certain which one a number means. Pure.
std::vector<Device> cuda_devices(const NvmlReport& nvml, const std::string& visible, const std::string& order);

/// AMD's GPUs on the bus, as ROCm numbers them: in the order of the kernel's topology, without those that
/// HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES leave out. Empty where nothing is known.
std::vector<Device> rocm_devices(const Machine& machine);

/// The version of the kernel driver that the device on the bus is bound to; empty where that has none.
std::string driver_version(const Machine& machine, const std::string& address);

/// "0 (NVIDIA H100 80GB HBM3), 1": what there is, for a message about a number that there is not.
std::string numbered(std::span<const Device> devices);

}  // namespace gpux::provider
