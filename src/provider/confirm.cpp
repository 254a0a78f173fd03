#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "ort/core.h"
#include "ort/plugins.h"
#include "ort/provider_file.h"
#include "provider/probe.h"
#include "provider/remedy.h"
#include "provider/select.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

std::string device_name(const ort::ProviderDevice& device) {
  for (const auto& [key, value] : device.metadata) {
    if (key == "Description" || key == "ov_device" || key == "name") return value;
  }
  return {};
}

void take_devices(const std::vector<ort::ProviderDevice>& devices, const std::string& ort_name,
                  ProviderReport& report) {
  report.ort_name = ort_name;
  report.devices.clear();
  report.accelerated = false;
  for (const ort::ProviderDevice& device : devices) {
    if (device.provider != ort_name) continue;
    const std::string vendor = device.vendor.empty() ? device.provider_vendor : device.vendor;
    report.devices.push_back({.kind = device.kind,
                              .name = device_name(device),
                              .vendor = vendor,
                              .index = static_cast<std::uint32_t>(report.devices.size())});
    if (device.kind != "cpu") report.accelerated = true;
  }
}

// Of the fastest of the devices.
std::string kind_of(const std::vector<Device>& devices) {
  for (const char* kind : {"gpu", "npu"}) {
    if (std::ranges::find(devices, kind, &Device::kind) != devices.end()) return kind;
  }
  return "cpu";
}

void confirm_plugin(const ProviderRow* row, const PluginFile& plugin, const Machine& machine, ProviderReport& report) {
  const auto refuse = [&](const std::string& reason, Message remedy) {
    report.available = report.accelerated = false;
    report.reason = reason;
    report.remedy = std::move(remedy);
  };
  const std::string& version = ort::Core::current()->version();
  if (row != nullptr && !row->oldest_core.empty() && is_older(version, row->oldest_core)) {
    refuse(fmt::format("not with this core: it needs ONNX Runtime {} or newer, this is {}", row->oldest_core, version),
           ask_first(row->id));
    return;
  }
  // ONNX Runtime loads it as a bridge, whose code ends the process where this library is not there.
  const fs::path shared = ort::Core::current()->library().parent_path() / "libonnxruntime_providers_shared.so";
  if (std::error_code error; ort::read_provider_file(plugin.library).is_bridge && !fs::exists(shared, error)) {
    refuse(fmt::format("not with this core: it is a provider bridge library, too, and needs '{}'", shared.string()),
           Message("put it next to the ONNX Runtime that it was built with, in $GPUX_HOME/cores/NAME"));
    return;
  }
  // Names are the library's to choose; the table's are only what they were when the table was written.
  std::vector<std::string> names;
  std::vector<ort::ProviderDevice> devices;
  try {
    names = ort::register_provider_library(plugin.name, plugin.library);
    devices = ort::provider_devices();
  } catch (const Error& error) {
    refuse(error.message(),
           Message(row == nullptr ? "give a library that exports CreateEpFactories, built for this system"
                                  : "reinstall it: " + remedy_on(machine, row->remedy)));
    return;
  }
  std::string ort_name = names.empty() ? std::string() : names.front();
  for (const std::string& name : names) {
    if (row == nullptr || std::ranges::find(row->plugin_names, name) == row->plugin_names.end()) continue;
    ort_name = name;
    break;
  }
  if (!ort_name.empty()) take_devices(devices, ort_name, report);
  if (row == nullptr) report.kind = kind_of(report.devices);
  if (names.size() > 1) report.note = fmt::format("its library lists {}; {} is used", join(names), ort_name);
  if (!report.devices.empty()) return;
  std::string remedy = "check the driver of the hardware it is made for";
  if (row != nullptr && row->id == "webgpu") {
    remedy = "install a Vulkan driver; for a software adapter set ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1";
  }
  refuse("its library loads, but lists no device on this machine", Message(std::move(remedy)));
}

}  // namespace

void confirm(std::vector<ProviderReport>& reports, std::span<const PluginFile> plugins, const Machine& machine) {
  const ort::Core* core = ort::Core::current();
  if (core == nullptr) throw Error(ErrorCode::internal, "providers are confirmed before ONNX Runtime is open");
  const std::vector<std::string> built_in = core->built_in_providers();
  const auto is_built_in = [&](std::string_view name) {
    return !name.empty() && std::find(built_in.begin(), built_in.end(), name) != built_in.end();
  };
  for (ProviderReport& report : reports) {
    const ProviderRow* row = find_row(report.id);
    if (row != nullptr && row->id != report.id) row = nullptr;
    if (report.source == "plugin" && report.available) {
      const auto plugin = std::find_if(plugins.begin(), plugins.end(),
                                       [&](const PluginFile& file) { return file.library == report.library; });
      if (plugin != plugins.end()) confirm_plugin(row, *plugin, machine, report);
    } else if (row != nullptr && report.source == "bridge" && report.available && report.core == core->library()) {
      if (!is_built_in(row->built_in_name)) {
        report.available = report.accelerated = false;
        report.reason = fmt::format("ONNX Runtime {} does not know it", core->version());
        report.remedy = Message(remedy_on(machine, row->remedy));
      }
    } else if (report.source.empty() && row != nullptr && is_built_in(row->built_in_name)) {
      report.source = "built in";
      report.available = true;
      report.accelerated = row->kind != "cpu";
      report.reason.clear();
      report.remedy.clear();
      report.devices.push_back({.kind = report.kind, .name = {}, .vendor = {}, .index = 0});
    }
  }
}

void confirm_for(const Request& request, System system, std::vector<ProviderReport>& reports,
                 std::span<const PluginFile> plugins, const Machine& machine) {
  std::vector<ProviderReport> unasked;
  if (request.form == Request::Form::automatic || request.form == Request::Form::kind) {
    const auto has_row = [](const ProviderReport& report) {
      const ProviderRow* row = find_row(report.id);
      return row != nullptr && row->id == report.id;
    };
    const auto first = std::stable_partition(reports.begin(), reports.end(), has_row);
    unasked.assign(std::make_move_iterator(first), std::make_move_iterator(reports.end()));
    reports.erase(first, reports.end());
  }
  confirm(reports, plugins, machine);
  if (unasked.empty()) return;
  const std::vector<std::string> chosen = select(request, reports, system, ort::Core::current()->library()).chosen();
  if (chosen.empty() || chosen.front() == "cpu") confirm(unasked, plugins, machine);
  std::ranges::move(unasked, std::back_inserter(reports));
}

}  // namespace gpux::provider
