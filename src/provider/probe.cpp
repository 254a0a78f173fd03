#include "provider/probe.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/elf.h"
#include "base/files.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "ort/core.h"
#include "ort/installed_providers.h"
#include "ort/provider_file.h"
#include "provider/gpu_devices.h"
#include "provider/nvml.h"
#include "provider/remedy.h"
#include "provider/select.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

constexpr const char* given_origin = "given";
constexpr std::uint16_t nvidia = 0x10de;
constexpr std::uint16_t amd = 0x1002;

/// A device file that is there while a driver is loaded, and, in a container, where the container was given a GPU.
struct DriverFile {
  std::uint16_t vendor_id;
  const char* path;
  bool is_vendors_alone;  ///< whether it shows that there is hardware of this vendor
};

constexpr DriverFile driver_files[] = {
    {nvidia, "/dev/nvidiactl", true}, {nvidia, "/dev/dxg", true}, {amd, "/dev/kfd", true}, {amd, "/dev/dxg", false}};

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

/// What of a machine's hardware decides whether a provider can work.
struct Hardware {
  std::vector<PciDevice> accelerators;
  std::vector<const DriverFile*> drivers;
  bool has_graphics_file = false;   ///< /dev/dri: without it a GPU on the bus cannot be used by OpenVINO
  std::vector<Device> nvidia_gpus;  ///< as CUDA numbers them; at least one
  std::string nvidia_failure;       ///< NVIDIA's driver is here, but does not work
};

// A container is given some of the GPUs on the bus: those with a device file. CUDA_VISIBLE_DEVICES names fewer of them.
std::size_t count_nvidia_gpus(const Machine& machine) {
  std::size_t count = numbered_files(machine, "/dev", "nvidia").size();
  if (const std::string visible = machine.variable("CUDA_VISIBLE_DEVICES"); !visible.empty()) {
    // CUDA stops at the first that there is not, and gives a process one part of a divided GPU at most.
    std::size_t named = 0;
    for (const std::string& device : split(visible, ',')) {
      std::size_t index = 0;
      const auto [behind, error] = std::from_chars(device.data(), device.data() + device.size(), index);
      const bool is_index = error == std::errc() && behind == device.data() + device.size();
      if (is_index ? index >= count : !device.starts_with("GPU-") && !device.starts_with("MIG-")) break;
      ++named;
      if (device.starts_with("MIG-")) break;
    }
    count = std::min(count, named);
  }
  return std::max<std::size_t>(count, 1);
}

// NVML knows more than the device files do, and what it does not know they do.
void find_nvidia_gpus(const Machine& machine, Hardware& hardware) {
  const NvmlReport nvml = read_nvml(machine);
  hardware.nvidia_failure = nvml.failure;
  hardware.nvidia_gpus =
      cuda_devices(nvml, machine.variable("CUDA_VISIBLE_DEVICES"), machine.variable("CUDA_DEVICE_ORDER"));
  if (!hardware.nvidia_gpus.empty()) return;
  const std::size_t count = count_nvidia_gpus(machine);
  for (std::uint32_t index = 0; index < count; ++index) {
    hardware.nvidia_gpus.push_back({.kind = "gpu", .name = {}, .vendor = {}, .index = index});
  }
}

Hardware hardware_of(const Machine& machine) {
  std::error_code error;
  Hardware hardware{.accelerators = pci_accelerators(machine),
                    .drivers = {},
                    .has_graphics_file = fs::exists(machine.at("/dev/dri"), error),
                    .nvidia_gpus = {},
                    .nvidia_failure = {}};
  for (const DriverFile& file : driver_files) {
    if (fs::exists(machine.at(file.path), error)) hardware.drivers.push_back(&file);
  }
  const bool has_nvidia =
      std::ranges::any_of(hardware.drivers, [](const DriverFile* file) { return file->vendor_id == nvidia; });
  if (has_nvidia) find_nvidia_gpus(machine, hardware);
  return hardware;
}

bool is_vendor_of(const ProviderRow& row, std::uint16_t vendor_id) {
  return std::ranges::find(row.vendor_ids, vendor_id) != row.vendor_ids.end();
}

// In containers and in Windows's Linux there may be no PCI bus to read.
bool is_here(const ProviderRow& row, const Hardware& hardware) {
  if (row.vendor_ids.empty()) return true;
  return std::ranges::any_of(hardware.accelerators,
                             [&](const PciDevice& device) { return is_vendor_of(row, device.vendor_id); }) ||
         std::ranges::any_of(hardware.drivers, [&](const DriverFile* file) {
           return file->is_vendors_alone && is_vendor_of(row, file->vendor_id);
         });
}

/// The device file that the row's driver would make; null where the driver is here, or not known by a file.
const DriverFile* missing_driver(const ProviderRow& row, const Hardware& hardware) {
  const auto is_of_row = [&](const DriverFile& file) { return is_vendor_of(row, file.vendor_id); };
  if (std::ranges::any_of(hardware.drivers, [&](const DriverFile* file) { return is_of_row(*file); })) return nullptr;
  const auto* const file = std::ranges::find_if(driver_files, is_of_row);
  return file == std::end(driver_files) ? nullptr : file;
}

// By OpenVINO's names for them.
std::vector<Device> intel_gpus(const Hardware& hardware, const Machine& machine) {
  std::vector<Device> devices;
  if (!hardware.has_graphics_file) return devices;
  for (const PciDevice& device : hardware.accelerators) {
    if (device.vendor_id != 0x8086 || device.class_code >> 16 != 0x03) continue;
    devices.push_back({.kind = "gpu",
                       .name = fmt::format("GPU.{}", devices.size()),
                       .vendor = "Intel",
                       .index = static_cast<std::uint32_t>(devices.size()),
                       .driver = driver_version(machine, device.address),
                       .address = device.address});
  }
  if (devices.size() == 1) devices.front().name = "GPU";
  return devices;
}

constexpr std::string_view provider_stem = "libonnxruntime_providers_";

// "nv-tensorrt-rtx" of onnxruntime_ep_nv_tensorrt_rtx, "ggml" of onnxruntime_ggml.
std::string short_name_of(std::string package) {
  for (const std::string_view prefix : {"onnxruntime_ep_", "onnxruntime_"}) {
    if (!package.starts_with(prefix)) continue;
    package.erase(0, prefix.size());
    break;
  }
  std::ranges::replace(package, '_', '-');
  return package;
}

// Whether the package is named for the provider: onnxruntime_ep_cuda13 for CUDAExecutionProvider.
bool is_named_for(const std::string& package, const ProviderRow& row) {
  if (package.empty()) return false;
  std::string name = short_name_of(package);
  std::erase(name, '-');
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.pop_back();
  return std::ranges::any_of(row.plugin_names,
                             [&](std::string_view plugin) { return lower(plugin) == name + "executionprovider"; });
}

bool brings(const PluginFile& plugin, const ProviderRow& row) {
  if (is_named_for(plugin.package, row)) return true;
  const std::string stem = plugin.library.stem();
  // A bridge and a plugin may have the same name, or be the same file.
  if (!row.bridge.empty() && stem == std::string(provider_stem).append(row.bridge)) return true;
  return std::find(row.plugins.begin(), row.plugins.end(), stem) != row.plugins.end();
}

const PluginFile* plugin_of(const ProviderRow& row, std::span<const PluginFile> plugins) {
  for (const PluginFile& plugin : plugins) {
    if (plugin.origin == given_origin && plugin.name == row.id) return &plugin;
  }
  for (const PluginFile& plugin : plugins) {
    if (brings(plugin, row)) return &plugin;
  }
  return nullptr;
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
    report.remedy = row.remedy;
    return;
  }
  // A bridge does not list devices before a session is made, and a session without a driver fails late.
  if (const DriverFile* file = missing_driver(row, hardware)) {
    report.reason = fmt::format("the driver of the {} is not loaded here: no {}", row.hardware, file->path);
    report.remedy = file->vendor_id == nvidia
                        ? "sudo apt install nvidia-driver; a container is given its GPUs by docker run --gpus all"
                        : "sudo modprobe amdgpu; a container is given its GPUs by docker run --device /dev/kfd "
                          "--device /dev/dri";
    return;
  }
  const bool is_nvidias = is_vendor_of(row, nvidia);
  if (is_nvidias && !hardware.nvidia_failure.empty()) {
    report.reason = fmt::format("the driver of the {} does not work: {}", row.hardware, hardware.nvidia_failure);
    report.remedy = "restart the machine after an update of the driver; nvidia-smi shows the same error";
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
    if (is_vendor_of(row, amd)) report.devices = rocm_devices(machine);
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
    report.remedy = file.is_bridge ? "put it into $GPUX_HOME/cores/NAME, with the ONNX Runtime that it was built with"
                                   : "give a library that exports CreateEpFactories, built for this system";
    return;
  }
  if (const auto missing = missing_libraries(plugin.library, library_needs(row, plugin.library, machine), machine);
      !missing.empty()) {
    report.reason = missing_sentence(plugin.library, missing);
    report.remedy = "install the package that brings " + missing.front();
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
      report.remedy = row.remedy;
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
  report.remedy = row.remedy;
  if (!is_here(row, hardware)) {
    report.reason = fmt::format("no {} on this machine", row.hardware);
    report.remedy.clear();
  }
  return report;
}

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
  const auto refuse = [&](const std::string& reason, const std::string& remedy) {
    report.available = report.accelerated = false;
    report.reason = reason;
    report.remedy = remedy;
  };
  const std::string& version = ort::Core::current()->version();
  if (row != nullptr && !row->oldest_core.empty() && is_older(version, row->oldest_core)) {
    refuse(fmt::format("not with this core: it needs ONNX Runtime {} or newer, this is {}", row->oldest_core, version),
           fmt::format("ask for it first: --provider {}", row->id));
    return;
  }
  // ONNX Runtime loads it as a bridge, whose code ends the process where this library is not there.
  const fs::path shared = ort::Core::current()->library().parent_path() / "libonnxruntime_providers_shared.so";
  if (std::error_code error; ort::read_provider_file(plugin.library).is_bridge && !fs::exists(shared, error)) {
    refuse(fmt::format("not with this core: it is a provider bridge library, too, and needs '{}'", shared.string()),
           "put it next to the ONNX Runtime that it was built with, in $GPUX_HOME/cores/NAME");
    return;
  }
  // Names are the library's to choose; the table's are only what they were when the table was written.
  std::vector<std::string> names;
  std::vector<ort::ProviderDevice> devices;
  try {
    names = ort::register_provider_library(plugin.name, plugin.library);
    devices = ort::provider_devices();
  } catch (const Error& error) {
    refuse(error.message(), row == nullptr ? "give a library that exports CreateEpFactories, built for this system"
                                           : "reinstall it: " + remedy_on(machine, row->remedy));
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
  refuse("its library loads, but lists no device on this machine", remedy);
}

}  // namespace

bool is_older(const std::string& version, std::string_view floor) {
  return ort::is_older_version(version, floor);
}

namespace {

void add_vendor_folders(const fs::path& packages, std::vector<fs::path>& folders) {
  std::error_code error;
  for (fs::directory_iterator entry(packages / "nvidia", error), end; !error && entry != end; entry.increment(error)) {
    folders.push_back(entry->path() / "lib");
  }
  folders.push_back(packages / "tensorrt_libs");
}

}  // namespace

std::vector<fs::path> vendor_library_folders(const Machine& machine) {
  std::vector<fs::path> folders;
  for (const fs::path& packages : ort::python_package_folders(machine)) add_vendor_folders(packages, folders);
  for (const fs::path& packages : ort::installed_package_folders(machine)) add_vendor_folders(packages, folders);
  return folders;
}

std::vector<fs::path> vendor_library_folders_around(const fs::path& library) {
  std::vector<fs::path> folders;
  for (fs::path folder = library.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (!ort::holds_python_packages(folder)) continue;
    add_vendor_folders(folder, folders);
    break;
  }
  return folders;
}

namespace {

// By name; `depth`: of the folders below it that are searched, too.
std::vector<fs::path> libraries_in(const fs::path& folder, int depth) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry.depth() >= depth) entry.disable_recursion_pending();
    const std::string extension = entry->path().extension();
    if (extension == ".so" || extension == ".dylib") files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<PluginFile> find_plugins(std::span<const ProviderLibrary> given, const Machine& machine) {
  std::vector<PluginFile> plugins;
  const auto add = [&](const std::string& name, const fs::path& library, const char* origin,
                       const std::string& package = {}) {
    std::error_code error;
    const fs::path file = fs::canonical(library, error);
    if (error) return;
    const bool known =
        std::any_of(plugins.begin(), plugins.end(), [&](const PluginFile& plugin) { return plugin.library == file; });
    if (!known) plugins.push_back({name, file, origin, package});
  };
  // Beside its provider there may be the provider's own dependencies.
  const auto add_folder = [&](const fs::path& folder, const char* origin) {
    for (const fs::path& file : libraries_in(folder, 0)) {
      const ort::ProviderFile provider = ort::read_provider_file(file);
      if (!provider.is_known || provider.is_plugin || provider.is_bridge) add(file.stem(), file, origin);
    }
  };
  const auto add_package = [&](const fs::path& folder, const char* origin) {
    const std::string package = folder.filename();
    std::vector<fs::path> found;
    for (const fs::path& file : libraries_in(folder, 3)) {
      const ort::ProviderFile provider = ort::read_provider_file(file);
      const bool has_its_name = file.filename().string().starts_with(provider_stem);
      if (provider.is_known ? provider.is_plugin : has_its_name) found.push_back(file);
    }
    for (const fs::path& file : found) {
      const std::string name = short_name_of(package);
      add(found.size() == 1 ? name : fmt::format("{}-{}", name, file.stem().string()), file, origin, package);
    }
  };
  for (const ProviderLibrary& library : given) {
    std::error_code error;
    if (!fs::is_regular_file(library.path, error)) {
      throw Error(ErrorCode::not_found,
                  fmt::format("provider library {}: '{}' does not exist", library.name, library.path.string()));
    }
    add(library.name, library.path, given_origin);
  }
  add_folder(machine.home_folder() / "providers", "GPUX_HOME");
  for (const fs::path& folder : ort::own_library_folders(machine)) add_folder(folder / "providers", "beside gpux");
  const auto add_packages = [&](const fs::path& packages, const char* origin) {
    std::error_code error;
    std::vector<fs::path> folders;
    for (fs::directory_iterator entry(packages, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename();
      // Others belong to a package: "onnxruntime_ggml.libs", "onnxruntime_ggml-0.2.0.dist-info".
      if (name.starts_with("onnxruntime_") && name.find('.') == std::string::npos) folders.push_back(entry->path());
    }
    std::ranges::sort(folders);
    for (const fs::path& folder : folders) add_package(folder, origin);
    // Next to an ONNX Runtime library: what is a bridge there is its own.
    for (fs::directory_iterator entry(packages / "onnxruntime" / "capi", error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path& file = entry->path();
      if (file.extension() != ".so" || !file.filename().string().starts_with(provider_stem)) continue;
      const ort::ProviderFile provider = ort::read_provider_file(file);
      if (provider.is_plugin && !provider.is_bridge) add(file.stem(), file, origin);
    }
  };
  for (const fs::path& packages : ort::installed_package_folders(machine))
    add_packages(packages, ort::installed_origin);
  for (const fs::path& packages : ort::python_package_folders(machine)) add_packages(packages, "Python package");
  return plugins;
}

std::vector<std::string> own_names(std::span<const PluginFile> plugins) {
  std::vector<std::string> names;
  for (const PluginFile& plugin : plugins) {
    const bool stands_for_row = std::any_of(table().begin(), table().end(), [&](const ProviderRow& row) {
      return plugin.name == row.id || (plugin.origin != given_origin && brings(plugin, row));
    });
    if (!stands_for_row) names.push_back(plugin.name);
  }
  return names;
}

std::vector<ProviderReport> survey(std::span<const std::string> ids, std::span<const ort::CoreFile> cores,
                                   std::span<const PluginFile> plugins, const Machine& machine) {
  const Hardware hardware = hardware_of(machine);
  Remedies remedies(machine);
  std::vector<ProviderReport> reports;
  for (const std::string& id : ids) {
    if (const ProviderRow* row = find_row(id); row != nullptr && row->id == id) {
      reports.push_back(survey_row(*row, cores, plugins, hardware, machine));
      reports.back().remedy = remedies.as_typed(reports.back().remedy);
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
        report.remedy = remedy_on(machine, row->remedy);
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
