#include "ort/plugins.h"

#include <map>
#include <mutex>
#include <set>

#include "base/log.h"
#include "ort/api.h"
#include "ort/installed_providers.h"

namespace gpux::ort {
namespace {

std::string device_kind(OrtHardwareDeviceType type) {
  switch (type) {
    case OrtHardwareDeviceType_GPU:
      return "gpu";
    case OrtHardwareDeviceType_NPU:
      return "npu";
    default:
      return "cpu";
  }
}

std::string text(const char* words) {
  return words == nullptr ? std::string() : std::string(words);
}

std::set<std::string> provider_names() {
  std::set<std::string> names;
  for (const Ort::ConstEpDevice& device : environment().GetEpDevices()) names.insert(text(device.EpName()));
  return names;
}

}  // namespace

std::vector<std::string> register_provider_library(const std::string& name, const std::filesystem::path& library) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::vector<std::string>> registered;
  const std::lock_guard lock(mutex);
  // ONNX Runtime takes a relative path as relative to its own folder.
  const std::filesystem::path file = std::filesystem::absolute(library);
  if (const auto known = registered.find(file); known != registered.end()) return known->second;
  try {
    const std::set<std::string> before = provider_names();
    environment().RegisterExecutionProviderLibrary(name.c_str(), file.native());
    std::vector<std::string> brought;
    for (const std::string& provider : provider_names()) {
      if (!before.contains(provider)) brought.push_back(provider);
    }
    hold_installation_of(file);
    log::debug("registered provider library {} from {}", name, file.string());
    return registered.emplace(file, std::move(brought)).first->second;
  } catch (const Ort::Exception& exception) {
    throw Error(ErrorCode::provider_unavailable,
                "'" + file.string() + "' does not load: " + translate(exception).message());
  }
}

std::vector<ProviderDevice> provider_devices() {
  std::vector<ProviderDevice> devices;
  for (const Ort::ConstEpDevice& device : environment().GetEpDevices()) {
    const Ort::ConstHardwareDevice hardware = device.Device();
    ProviderDevice entry;
    entry.provider = text(device.EpName());
    entry.provider_vendor = text(device.EpVendor());
    entry.kind = device_kind(hardware.Type());
    entry.vendor = text(hardware.Vendor());
    entry.vendor_id = hardware.VendorId();
    entry.device_id = hardware.DeviceId();
    for (const auto& [key, value] : hardware.Metadata().GetKeyValuePairs()) entry.metadata.emplace_back(key, value);
    for (const auto& [key, value] : device.EpMetadata().GetKeyValuePairs()) entry.metadata.emplace_back(key, value);
    entry.index = devices.size();
    devices.push_back(std::move(entry));
  }
  return devices;
}

}  // namespace gpux::ort
