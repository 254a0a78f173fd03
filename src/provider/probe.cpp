#include "provider/probe.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/elf.h"
#include "base/files.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "ort/installed_providers.h"
#include "ort/provider_file.h"
#include "provider/gpu_devices.h"
#include "provider/machine_hardware.h"
#include "provider/remedy.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

std::string_view system_name() {
  switch (this_system()) {
    case System::macos:
      return "macos";
    case System::windows:
      return "windows";
    case System::linux_:
      break;
  }
  return "linux";
}

ProviderReport describe(const ProviderRow& row) {
  ProviderReport report;
  report.id = row.id;
  report.aliases.assign(row.aliases.begin(), row.aliases.end());
  report.ort_name = row.built_in_name.empty() ? row.plugin_names.front() : row.built_in_name;
  report.kind = row.kind;
  report.description = row.description;
  report.systems.assign(row.systems.begin(), row.systems.end());
  for (const OptionRow& option : row.options) report.option_names.emplace_back(option.name);
  return report;
}

std::string missing_sentence(const fs::path& library, const std::vector<std::string>& missing) {
  return fmt::format("{}: not found ({} needs {})", join(missing), library.filename().string(),
                     missing.size() == 1 ? "it" : "them");
}

// What CUDA's libraries open by name when they need it. It has to be of the same CUDA as they are.
std::vector<std::string> opened_by_cuda(const fs::path& library) {
  MappedFile file;
  try {
    file = MappedFile(library);
  } catch (const Error&) {
    return {};
  }
  for (const std::string& name : read_elf_needs(file.bytes()).libraries) {
    if (name == "libcudart.so.13") return {"libnvrtc.so.13", "libcufft.so.12"};
    if (name == "libcudart.so.12") return {"libnvrtc.so.12", "libcufft.so.11"};
  }
  return {};
}

LibraryNeeds library_needs(const ProviderRow* row, const fs::path& library, const Machine& machine) {
  LibraryNeeds needs{.also = {},
                     .optional = opened_by_cuda(library),
                     .preferred = vendor_library_folders_around(library),
                     .folders = vendor_library_folders(machine)};
  needs.preferred.push_back(library.parent_path());
  if (row != nullptr) needs.also.assign(row->opened_later.begin(), row->opened_later.end());
  return needs;
}

void survey_bridge(const ProviderRow& row, const ort::CoreFile& core, const Hardware& hardware, const Machine& machine,
                   ProviderReport& report) {
  report.source = "bridge";
  report.core = core.library;
  report.library = core.library.parent_path() / fmt::format("{}{}.so", provider_stem, row.bridge);
  if (!is_here(row, hardware)) {
    report.reason = fmt::format("no {} on this machine", row.hardware);
    return;
  }
  if (const auto missing = missing_libraries(report.library, library_needs(&row, report.library, machine), machine);
      !missing.empty()) {
    report.reason = missing_sentence(report.library, missing);
    report.remedy = Message(std::string(row.remedy));
    return;
  }
  // A bridge does not list devices before a session is made, and a session without a driver fails late.
  if (const DriverFile* file = missing_driver(row, hardware)) {
    report.reason = fmt::format("the driver of the {} is not loaded here: no {}", row.hardware, file->path);
    report.remedy =
        Message(file->vendor_id == nvidia_vendor
                    ? "sudo apt install nvidia-driver; a container is given its GPUs by docker run --gpus all"
                    : "sudo modprobe amdgpu; a container is given its GPUs by docker run --device /dev/kfd "
                      "--device /dev/dri");
    return;
  }
  const bool is_nvidias = is_vendor_of(row, nvidia_vendor);
  if (is_nvidias && !hardware.nvidia_failure.empty()) {
    report.reason = fmt::format("the driver of the {} does not work: {}", row.hardware, hardware.nvidia_failure);
    report.remedy = Message("restart the machine after an update of the driver; nvidia-smi shows the same error");
    return;
  }
  report.available = true;
  if (ort::read_provider_file(report.library).is_plugin) {
    report.note = fmt::format("{} is a bridge and a plugin: it is used as a bridge, with the ONNX Runtime next to it",
                              report.library.filename().string());
  }
  if (row.id != "openvino") {
    report.accelerated = true;
    if (is_nvidias) report.devices = hardware.nvidia_gpus;
    if (is_vendor_of(row, amd_vendor)) report.devices = rocm_devices(machine);
    // Without a bus to read, as in a container, there is at least one.
    if (report.devices.empty()) {
      report.devices.push_back({.kind = report.kind, .name = {}, .vendor = {}, .index = 0});
    }
    for (Device& device : report.devices) device.kind = report.kind;
    return;
  }
  report.devices = intel_gpus(hardware, machine);
  report.accelerated = !report.devices.empty();
  report.devices.push_back({.kind = "cpu",
                            .name = processor_name(machine),
                            .vendor = {},
                            .index = static_cast<std::uint32_t>(report.devices.size())});
}

void survey_plugin(const ProviderRow* row, const PluginFile& plugin, const Machine& machine, ProviderReport& report) {
  report.source = "plugin";
  report.library = plugin.library;
  const ort::ProviderFile file = ort::read_provider_file(plugin.library);
  if (file.is_known && !file.is_plugin) {
    report.reason = fmt::format("{} exports {}", plugin.library.filename().string(),
                                file.is_bridge ? "GetProvider, not CreateEpFactories: it is a provider bridge library, "
                                                 "which works only next to the ONNX Runtime that it was built with"
                                               : "no CreateEpFactories: it is no provider library");
    report.remedy =
        Message(file.is_bridge ? "put it into $GPUX_HOME/cores/NAME, with the ONNX Runtime that it was built with"
                               : "give a library that exports CreateEpFactories, built for this system");
    return;
  }
  if (const auto missing = missing_libraries(plugin.library, library_needs(row, plugin.library, machine), machine);
      !missing.empty()) {
    report.reason = missing_sentence(plugin.library, missing);
    report.remedy = Message("install the package that brings " + missing.front());
    return;
  }
  report.available = true;
  report.accelerated = true;  // until its devices are known
  if (file.is_bridge) {
    report.note = fmt::format("{} is a bridge and a plugin: it is used as a plugin, as no ONNX Runtime is next to it",
                              plugin.library.filename().string());
  }
}

// Cores that bring the row's bridge. What the user had gpux install goes before what else is on the machine.
std::vector<ort::CoreFile> bridge_cores(const ProviderRow& row, std::span<const ort::CoreFile> cores) {
  std::vector<ort::CoreFile> bringing;
  for (const ort::CoreFile& core : cores) {
    if (!row.bridge.empty() && std::ranges::find(core.bridges, row.bridge) != core.bridges.end()) {
      bringing.push_back(core);
    }
  }
  std::stable_partition(bringing.begin(), bringing.end(),
                        [](const ort::CoreFile& core) { return core.origin == ort::installed_origin; });
  return bringing;
}

// Why what was installed for the row is not used; empty where it is used, or nothing was.
std::string damaged_installation(const ProviderRow& row, const Machine& machine) {
  for (const ort::InstalledProvider& installed : ort::find_installed_providers(machine)) {
    // "cuda12" is one for cuda.
    const std::string name = installed.name.substr(0, installed.name.find_last_not_of("0123456789") + 1);
    if (installed.damage.empty() || name != row.id) continue;
    return fmt::format("the installation {} {} is damaged: {}", installed.name, installed.version, installed.damage);
  }
  return {};
}

ProviderReport survey_row(const ProviderRow& row, std::span<const ort::CoreFile> cores,
                          std::span<const PluginFile> plugins, const Hardware& hardware, const Machine& machine) {
  ProviderReport report = describe(row);
  if (row.id == "cpu") {
    report.source = "built in";
    report.available = !cores.empty();
    if (cores.empty()) {
      report.reason = "no ONNX Runtime found";
      report.remedy = Message(std::string(row.remedy));
    }
    report.devices.push_back({.kind = "cpu", .name = processor_name(machine), .vendor = {}, .index = 0});
    return report;
  }
  for (const ort::CoreFile& core : bridge_cores(row, cores)) {
    survey_bridge(row, core, hardware, machine, report);
    if (report.available) return report;
  }
  if (const PluginFile* plugin = plugin_of(row, plugins)) {
    survey_plugin(brings(*plugin, row) ? &row : nullptr, *plugin, machine, report);
    // What the driver brings is missing where there is nothing to drive.
    if (!report.available && !is_here(row, hardware)) {
      report.reason = fmt::format("no {} on this machine", row.hardware);
      report.remedy.clear();
    }
    return report;
  }
  if (!report.source.empty()) return report;  // a bridge that does not work
  if (std::find(row.systems.begin(), row.systems.end(), system_name()) == row.systems.end()) {
    report.reason = other_systems(row);
    return report;
  }
  const std::string damage = damaged_installation(row, machine);
  report.reason = damage.empty() ? "not installed" : damage;
  report.remedy = Message(std::string(row.remedy));
  if (!is_here(row, hardware)) {
    report.reason = fmt::format("no {} on this machine", row.hardware);
    report.remedy.clear();
  }
  return report;
}

}  // namespace

bool is_older(const std::string& version, std::string_view floor) {
  return ort::is_older_version(version, floor);
}

std::vector<ProviderReport> survey(std::span<const std::string> ids, std::span<const ort::CoreFile> cores,
                                   std::span<const PluginFile> plugins, const Machine& machine) {
  const Hardware hardware = hardware_of(machine);
  Remedies remedies(machine);
  std::vector<ProviderReport> reports;
  for (const std::string& id : ids) {
    if (const ProviderRow* row = find_row(id); row != nullptr && row->id == id) {
      reports.push_back(survey_row(*row, cores, plugins, hardware, machine));
      reports.back().remedy = Message(remedies.as_typed(to_string(reports.back().remedy)));
      continue;
    }
    ProviderReport report;
    report.id = report.ort_name = id;
    report.kind = "cpu";
    report.description = "a provider library of your own";
    report.reason = "its library does not exist";
    for (const PluginFile& plugin : plugins) {
      if (plugin.name != id) continue;
      if (!plugin.package.empty()) report.description = "the provider of the Python package " + plugin.package;
      report.reason.clear();
      survey_plugin(nullptr, plugin, machine, report);
      break;
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<ProviderReport> survey_known(const Machine& machine) {
  std::vector<std::string> ids;
  for (const ProviderRow& row : table()) ids.emplace_back(row.id);
  return survey(ids, ort::find_cores(machine), find_plugins({}, machine), machine);
}

}  // namespace gpux::provider
