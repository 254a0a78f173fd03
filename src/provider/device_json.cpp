#include "provider/device_json.h"

namespace gpux::provider {

nlohmann::ordered_json to_json(const Device& device) {
  nlohmann::ordered_json json = {
      {"index", device.index}, {"kind", device.kind}, {"name", device.name}, {"vendor", device.vendor}};
  if (device.memory_bytes != 0) json["memory_bytes"] = device.memory_bytes;
  if (!device.driver.empty()) json["driver"] = device.driver;
  if (!device.architecture.empty()) json["architecture"] = device.architecture;
  if (!device.address.empty()) json["address"] = device.address;
  return json;
}

}  // namespace gpux::provider
