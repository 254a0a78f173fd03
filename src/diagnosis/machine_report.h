#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "gpux/provider_manager.h"

namespace gpux::diagnosis {

using Json = nlohmann::ordered_json;

/// Facts of the machine as JSON, without ONNX Runtime: system, processor, memory, accelerators (null where there is no
/// PCI bus to read).
Json machine_json(const Machine& machine);

/// machine_json() as rows of name and value.
std::vector<std::vector<std::string>> machine_rows(const Machine& machine);

Json to_json(const RuntimeLibrary& library);

/// All that a report says.
Json to_json(const ProviderReport& report, const NameOfSubject& name_of);

/// "NVIDIA", "AMD", …; "vendor 0x1234" for others.
std::string vendor_name(const PciDevice& device);

/// "gpu 0: NVIDIA H100, cpu 1: …"
std::string device_list(const std::vector<Device>& devices);

}  // namespace gpux::diagnosis
