#include "diagnosis/machine_report.h"

#include <filesystem>

#include <fmt/format.h>
#include <sys/utsname.h>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "provider/device_json.h"

namespace gpux::diagnosis {
namespace {

std::string system_description() {
  utsname names{};
  if (::uname(&names) != 0) return {};
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

const char* class_name(const PciDevice& device) {
  return device.class_code >> 16 == 0x03 ? "display" : "processing accelerator";
}

bool has_pci_bus(const Machine& machine) {
  std::error_code error;
  return std::filesystem::is_directory(machine.at("/sys/bus/pci/devices"), error);
}

}  // namespace

std::string vendor_name(const PciDevice& device) {
  switch (device.vendor_id) {
    case 0x10de:
      return "NVIDIA";
    case 0x1002:
    case 0x1022:
      return "AMD";
    case 0x8086:
      return "Intel";
    case 0x19e5:
      return "Huawei";
    case 0x17cb:
      return "Qualcomm";
    case 0x1ae0:
      return "Google";
    default:
      return fmt::format("vendor 0x{:04x}", device.vendor_id);
  }
}

Json machine_json(const Machine& machine) {
  Json json;
  json["system"] = system_description();
  json["processor"] = processor_name(machine);
  json["processors"] = usable_processors(machine);
  json["memory_bytes"] = usable_memory_bytes(machine);
  json["accelerators"] = has_pci_bus(machine) ? Json::array() : Json(nullptr);
  for (const PciDevice& device : pci_accelerators(machine)) {
    json["accelerators"].push_back({{"address", device.address},
                                    {"vendor", vendor_name(device)},
                                    {"vendor_id", fmt::format("0x{:04x}", device.vendor_id)},
                                    {"device_id", fmt::format("0x{:04x}", device.device_id)},
                                    {"class", class_name(device)}});
  }
  return json;
}

std::vector<std::vector<std::string>> machine_rows(const Machine& machine) {
  const std::string processor = processor_name(machine);
  const std::vector<PciDevice> accelerators = pci_accelerators(machine);
  std::vector<std::vector<std::string>> rows = {
      {"system", system_description()},
      {"processor", processor.empty() ? "unknown" : processor},
      {"processors usable", std::to_string(usable_processors(machine))},
      {"memory usable", format_bytes(usable_memory_bytes(machine))},
  };
  for (const PciDevice& device : accelerators) {
    rows.push_back({"accelerator", fmt::format("{} {:04x}:{:04x} at {} ({})", vendor_name(device), device.vendor_id,
                                               device.device_id, device.address, class_name(device))});
  }
  if (accelerators.empty()) {
    rows.push_back(
        {"accelerators", has_pci_bus(machine) ? "none on the PCI bus" : "unknown: there is no PCI bus to read"});
  }
  return rows;
}

Json to_json(const RuntimeLibrary& library) {
  return {{"version", library.version},
          {"path", library.path.string()},
          {"origin", library.origin},
          {"api_version", library.api_version}};
}

Json to_json(const ProviderReport& report, const NameOfSubject& name_of) {
  Json json;
  json["id"] = report.id;
  json["name"] = report.ort_name;
  json["aliases"] = report.aliases;
  json["kind"] = report.kind;
  json["description"] = report.description;
  json["systems"] = report.systems;
  json["available"] = report.available;
  json["accelerated"] = report.accelerated;
  json["reason"] = report.reason;
  json["remedy"] = to_string(report.remedy, name_of);
  json["note"] = report.note;
  json["devices"] = Json::array();
  for (const Device& device : report.devices) json["devices"].push_back(provider::to_json(device));
  json["source"] = report.source;
  json["library"] = report.library.string();
  json["core"] = report.core.string();
  json["option_names"] = report.option_names;
  return json;
}

std::string device_list(const std::vector<Device>& devices) {
  std::string list;
  for (const Device& device : devices) {
    if (!list.empty()) list += ", ";
    list += fmt::format("{} {}", device.kind, device.index);
    if (!device.name.empty()) list += ": " + device.name;
    std::vector<std::string> details;
    if (device.memory_bytes != 0) details.push_back(format_bytes(device.memory_bytes));
    if (!device.driver.empty()) details.push_back("driver " + device.driver);
    if (!details.empty()) list += fmt::format(" ({})", join(details));
  }
  return list;
}

}  // namespace gpux::diagnosis
