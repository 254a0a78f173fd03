#include "diagnosis/diagnosis.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counted.h"
#include "base/dynamic_library.h"
#include "base/files.h"
#include "base/home.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "diagnosis/machine_files.h"
#include "diagnosis/machine_report.h"
#include "gpux/error.h"
#include "isolation/sandbox.h"
#include "model/load_settings.h"
#include "model/open_model.h"
#include "ort/core.h"
#include "ort/installed_providers.h"

extern char** environ;

namespace gpux::diagnosis {
namespace {

namespace fs = std::filesystem;
using State = Check::State;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool has_line_beginning_with(const fs::path& file, std::string_view beginning) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(beginning)) return true;
  }
  return false;
}

// "onnxruntime-gpu" of "onnxruntime_gpu-1.24.4.dist-info".
std::string package_of(const std::string& folder) {
  std::string name = folder.substr(0, folder.find('-'));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool may(const fs::path& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

bool has_vendor(const Machine& machine, std::initializer_list<std::uint16_t> vendors) {
  return std::ranges::any_of(pci_accelerators(machine), [&](const PciDevice& device) {
    return std::find(vendors.begin(), vendors.end(), device.vendor_id) != vendors.end();
  });
}

Check pci_check(const Machine& machine, const PciDevice& device) {
  Check check{.area = "devices",
              .name = device.address,
              .state = State::ok,
              .found = fmt::format("{} {:04x}:{:04x}", vendor_name(device), device.vendor_id, device.device_id),
              .next = {}};
  std::error_code error;
  const fs::path driver = fs::read_symlink(machine.at("/sys/bus/pci/devices") / device.address / "driver", error);
  if (!error) {
    check.found += ", driver " + driver.filename().string();
    return check;
  }
  check.state = error == std::errc::no_such_file_or_directory ? State::problem : State::unknown;
  check.found += check.state == State::problem ? ", no driver is bound to it" : ", driver unknown: " + error.message();
  if (check.state == State::problem && device.vendor_id == 0x10de) check.next = "sudo apt install nvidia-driver";
  return check;
}

// `name`: as the machine names it; its file is below the machine's root.
Check device_file_check(const Machine& machine, const std::string& name) {
  Check check{.area = "devices", .name = name, .state = State::ok, .found = "readable and writable", .next = {}};
  const fs::path file = machine.at(name);
  if (may(file, R_OK | W_OK)) return check;
  check.state = State::problem;
  check.found = std::string("cannot be used: ") + std::strerror(errno);

  struct stat status {};

  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & S_IRGRP) != 0) {
    if (const group* owner = ::getgrgid(status.st_gid); owner != nullptr && status.st_gid != 0) {
      check.next = fmt::format("sudo usermod -aG {} $USER, then log in anew", owner->gr_name);
    }
  }
  return check;
}

std::vector<std::string> device_files(const Machine& machine) {
  std::vector<std::string> files;
  for (const char* name : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd", "/dev/dxg"}) {
    if (present(machine.at(name))) files.emplace_back(name);
  }
  const std::array<std::pair<const char*, const char*>, 3> kinds{
      {{"/dev", "nvidia"}, {"/dev/dri", "renderD"}, {"/dev/accel", "accel"}}};
  for (const auto& [folder, prefix] : kinds) {
    for (const fs::path& file : numbered_files(machine, folder, prefix)) files.push_back(file);
  }
  return files;
}

/// A driver's or vendor's part: there or not, needed by hardware that is there or not.
Check part(const std::string& name, bool is_there, const std::string& found, bool is_needed, const std::string& next) {
  if (is_there) return {.area = "drivers", .name = name, .state = State::ok, .found = found, .next = {}};
  return {.area = "drivers",
          .name = name,
          .state = is_needed ? State::problem : State::absent,
          .found = is_needed ? "not here, and the hardware needs it" : "not here",
          .next = is_needed ? next : std::string()};
}

Check kernel_module(const Machine& machine, const std::string& module, bool is_needed) {
  const fs::path folder = machine.at("/sys/module") / module;
  const std::string version = first_line(folder / "version");
  return part("kernel module " + module, present(folder), version.empty() ? "loaded, version unknown" : version,
              is_needed, "sudo modprobe " + module);
}

Check library(const Machine& machine, const std::string& name, bool is_needed, const std::string& next) {
  if (machine.opens_library(name)) return part(name, true, "the loader finds it", is_needed, next);
  for (const fs::path& folder : provider::vendor_library_folders(machine)) {
    if (present(folder / name)) return part(name, true, (folder / name).string(), is_needed, next);
  }
  return part(name, false, {}, is_needed, next);
}

Check nvidia_kernel_driver(const Machine& machine, bool is_needed) {
  const fs::path file = machine.at("/proc/driver/nvidia/version");
  if (present(file) && !may(file, R_OK)) {
    return {.area = "drivers",
            .name = "NVIDIA kernel driver",
            .state = State::unknown,
            .found = "version unknown: /proc/driver/nvidia/version cannot be read",
            .next = {}};
  }
  return part("NVIDIA kernel driver", present(file), first_line(file), is_needed, "sudo apt install nvidia-driver");
}

// Drivers that the Vulkan loader would open (its documentation, "Driver Discovery on Linux").
std::vector<fs::path> vulkan_manifests(const Machine& machine) {
  std::string given = machine.variable("VK_DRIVER_FILES");
  if (given.empty()) given = machine.variable("VK_ICD_FILENAMES");
  std::vector<fs::path> manifests;
  if (!given.empty()) {
    for (const std::string& file : split(given, ':')) {
      if (!file.empty()) manifests.emplace_back(file);
    }
    return manifests;
  }
  std::vector<fs::path> folders;
  const auto add_list = [&](const std::string& list) {
    for (const std::string& folder : split(list, ':')) {
      if (!folder.empty()) folders.push_back(fs::path(folder) / "vulkan" / "icd.d");
    }
  };
  const auto or_else = [](std::string value, const char* fallback) { return value.empty() ? fallback : value; };
  const std::string home = machine.variable("HOME");
  add_list(or_else(machine.variable("XDG_CONFIG_HOME"), home.empty() ? "" : (home + "/.config").c_str()));
  add_list(or_else(machine.variable("XDG_CONFIG_DIRS"), "/etc/xdg"));
  add_list("/usr/local/etc:/etc");
  add_list(or_else(machine.variable("XDG_DATA_HOME"), home.empty() ? "" : (home + "/.local/share").c_str()));
  add_list(or_else(machine.variable("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"));
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    for (const fs::path& entry : entries(machine.at(folder))) {
      const fs::path manifest = folder / entry.filename();
      if (entry.extension() == ".json" && seen.insert(manifest).second) manifests.push_back(manifest);
    }
  }
  return manifests;
}

Check vulkan_driver(const Machine& machine, const fs::path& manifest) {
  Check check{.area = "drivers",
              .name = "Vulkan driver " + manifest.filename().string(),
              .state = State::problem,
              .found = {},
              .next = {}};
  std::string text;
  try {
    text = read_file(machine.at(manifest), std::uint64_t{1} << 20);
  } catch (const Error& error) {
    check.found = error.message();
    return check;
  }
  // A null handler: a damaged manifest is a finding, not an error.
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto icd = json.is_object() ? json.find("ICD") : json.end();
  if (!json.is_object() || icd == json.end() || !icd->is_object() || !icd->contains("library_path") ||
      !(*icd)["library_path"].is_string()) {
    check.found = fmt::format("'{}' is no manifest of a Vulkan driver", manifest.string());
    return check;
  }
  const std::string path = (*icd)["library_path"];
  const fs::path file = path.find('/') == std::string::npos ? fs::path() : manifest.parent_path() / path;
  const bool is_there = file.empty() ? machine.opens_library(path) : present(machine.at(file));
  check.state = is_there ? State::ok : State::problem;
  check.found = is_there ? path : fmt::format("its library '{}' does not exist", path);
  return check;
}

std::vector<Check> check_vulkan(const Machine& machine, bool has_gpu) {
  std::vector<Check> checks;
  checks.push_back(library(machine, "libvulkan.so.1", has_gpu, "sudo apt install libvulkan1"));
  const std::vector<fs::path> manifests = vulkan_manifests(machine);
  for (const fs::path& manifest : manifests) checks.push_back(vulkan_driver(machine, manifest));
  if (manifests.empty()) {
    // NVIDIA's own comes with its driver.
    const bool is_mesas = has_vendor(machine, {0x8086, 0x1002});
    checks.push_back(part("Vulkan drivers", false, {}, is_mesas, "sudo apt install mesa-vulkan-drivers"));
  }
  return checks;
}

std::vector<Check> check_opencl(const Machine& machine) {
  std::vector<Check> checks;
  const bool has_intel = has_vendor(machine, {0x8086});
  checks.push_back(library(machine, "libOpenCL.so.1", has_intel, "sudo apt install ocl-icd-libopencl1"));
  std::vector<std::string> drivers;
  for (const fs::path& entry : entries(machine.at("/etc/OpenCL/vendors"))) {
    if (entry.extension() == ".icd") drivers.push_back(entry.stem());
  }
  checks.push_back(
      part("OpenCL drivers", !drivers.empty(), join(drivers), has_intel, "sudo apt install intel-opencl-icd"));
  return checks;
}

Check home_check(const fs::path& home) {
  Check check{.area = "gpux", .name = "GPUX_HOME " + home.string(), .state = State::ok, .found = {}, .next = {}};
  std::error_code error;
  fs::path there = home;
  while (!fs::exists(fs::status(there, error)) && there.has_parent_path() && there != there.parent_path()) {
    there = there.parent_path();
  }
  if (!fs::is_directory(there, error)) {
    check.state = State::problem;
    check.found = fmt::format("'{}' is no folder", there.string());
    check.next = "set GPUX_HOME to a folder";
    return check;
  }
  if (!may(there, W_OK | X_OK)) {
    const std::string why = std::strerror(errno);
    check.state = State::problem;
    check.found = fmt::format("'{}' cannot be written: {}", there.string(), why);
    check.next = "set GPUX_HOME to a folder of yours";
    return check;
  }
  const fs::space_info space = fs::space(there, error);
  check.found = there == home ? "writable" : "does not exist yet, and can be created";
  if (!error) check.found += fmt::format(", {} free", format_bytes(space.available));
  return check;
}

// What is wrong with the model; empty: nothing.
std::string damage_of(const Store& store, const StoredModel& model) {
  if (!model.damage.empty()) return model.damage;
  return join(store.verify(model), "; ");
}

std::vector<Check> store_checks(bool is_quick, const ReadingListener& listener) {
  std::vector<StoredModel> models;
  std::optional<Store> store;
  try {
    store = open_store();
    models = store->list();
  } catch (const Error& error) {
    return {{.area = "gpux", .name = "store", .state = State::problem, .found = error.message(), .next = {}}};
  }
  std::vector<Check> checks;
  // One package may have several names.
  std::map<std::string, std::string> damages;
  std::uint64_t bytes = 0;
  for (const StoredModel& model : models) {
    auto found = damages.find(model.digest);
    if (found == damages.end()) {
      if (!is_quick) listener(model.reference.text());
      found = damages.emplace(model.digest, is_quick ? model.damage : damage_of(*store, model)).first;
      bytes += model.package.total_bytes();
    }
    if (found->second.empty()) continue;
    checks.push_back({.area = "gpux",
                      .name = model.reference.text(),
                      .state = State::problem,
                      .found = found->second,
                      .next = fmt::format("gpux rm {}, then build it again", model.reference.text())});
  }
  if (checks.empty()) {
    checks.push_back({.area = "gpux",
                      .name = "store",
                      .state = State::ok,
                      .found = fmt::format("{}, none damaged: {}", counted(models.size(), "named model"),
                                           is_quick ? "their files were not read (--quick)"
                                                    : fmt::format("{} read and compared", format_bytes(bytes))),
                      .next = {}});
  }
  return checks;
}

}  // namespace

const char* to_string(State state) noexcept {
  switch (state) {
    case State::ok:
      return "ok";
    case State::absent:
      return "absent";
    case State::problem:
      return "problem";
    case State::unknown:
      break;
  }
  return "unknown";
}

std::vector<Check> check_devices(const Machine& machine) {
  std::vector<Check> checks;
  if (!present(machine.at("/sys/bus/pci/devices"))) {
    checks.push_back({.area = "devices",
                      .name = "PCI bus",
                      .state = State::unknown,
                      .found = "there is none to read, as in some containers",
                      .next = {}});
  }
  for (const PciDevice& device : pci_accelerators(machine)) checks.push_back(pci_check(machine, device));
  for (const std::string& name : device_files(machine)) checks.push_back(device_file_check(machine, name));
  if (checks.empty()) {
    checks.push_back({.area = "devices",
                      .name = "accelerators",
                      .state = State::absent,
                      .found = "none on the PCI bus, no device files",
                      .next = {}});
  }
  return checks;
}

std::vector<Check> check_drivers(const Machine& machine) {
  const bool has_nvidia = has_vendor(machine, {0x10de}) || present(machine.at("/dev/nvidiactl"));
  const bool has_amd = has_vendor(machine, {0x1002});
  const bool has_gpu = has_nvidia || has_amd || has_vendor(machine, {0x8086});
  std::vector<Check> checks;
  checks.push_back(nvidia_kernel_driver(machine, has_nvidia));
  checks.push_back(library(machine, "libcuda.so.1", has_nvidia, "sudo apt install libcuda1"));
  checks.push_back(kernel_module(machine, "amdgpu", has_amd));
  const std::string rocm = first_line(machine.at("/opt/rocm/.info/version"));
  checks.push_back(part("ROCm", present(machine.at("/opt/rocm")), rocm.empty() ? "/opt/rocm, version unknown" : rocm,
                        has_amd, "install ROCm by AMD's instructions (amdgpu-install --usecase=rocm)"));
  for (const char* module : {"i915", "xe", "intel_vpu", "amdxdna"})
    checks.push_back(kernel_module(machine, module, false));
  for (auto&& more : {check_vulkan(machine, has_gpu), check_opencl(machine)})
    checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

std::vector<Check> check_sandbox() {
  Check check{.area = "isolation", .name = "sandbox", .state = State::ok, .found = {}, .next = {}};
  try {
    const isolation::SandboxReport report = isolation::try_sandbox();
    if (!report.missing.empty()) check.state = State::absent;
    check.found = to_line(report);
  } catch (const Error& error) {
    check.state = State::unknown;
    check.found = error.message();
  }
  return {check};
}

std::vector<Check> check_home(bool is_quick, const ReadingListener& listener) {
  fs::path home;
  try {
    home = home_folder();
  } catch (const Error& error) {
    return {{.area = "gpux", .name = "GPUX_HOME", .state = State::problem, .found = error.message(), .next = {}}};
  }
  std::vector<Check> checks{home_check(home)};
  if (std::vector<Check> store = store_checks(is_quick, listener); !store.empty()) {
    checks.insert(checks.end(), store.begin(), store.end());
  }
  return checks;
}

std::vector<Check> check_variables() {
  std::vector<std::string> set;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("GPUX_")) set.emplace_back(text.substr(0, text.find('=')));
  }
  std::sort(set.begin(), set.end());
  const std::vector<std::string> known = variable_names();
  std::vector<Check> checks;
  for (const std::string& name : set) {
    Check check{.area = "variables", .name = name, .state = State::ok, .found = {}, .next = {}};
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      check.state = State::problem;
      check.found = "gpux reads no variable of that name";
      if (const auto near = nearest(name, known); !near.empty()) check.next = fmt::format("did you mean {}?", near);
    } else if (const std::string problem = variable_problem(name); !problem.empty()) {
      check.state = State::problem;
      check.found = problem;
    } else {
      check.found = environment_variable(name.c_str());
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_cores(const std::vector<ort::CoreFile>& cores, const fs::path& opened) {
  std::vector<Check> checks;
  for (const ort::CoreFile& core : cores) {
    Check check{
        .area = "ONNX Runtime", .name = core.library.string(), .state = State::unknown, .found = {}, .next = {}};
    check.found = fmt::format("{}, {}", core.version.empty() ? "version unknown" : core.version, core.origin);
    if (!core.bridges.empty()) check.found += ", with " + join(core.bridges);
    if (core.library == opened) {
      check.state = State::ok;
      check.found += ", in use";
    } else {
      // A process opens one only, so whether the others work is not known.
      check.found += ", not opened";
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_python_packages(const Machine& machine) {
  std::vector<Check> checks;
  for (const fs::path& folder : ort::python_package_folders(machine)) {
    std::vector<std::string> names;
    for (const fs::path& entry : entries(folder)) {
      const std::string name = entry.filename().string();
      if (!name.starts_with("onnxruntime") || entry.extension() != ".dist-info") continue;
      if (has_line_beginning_with(entry / "RECORD", "onnxruntime/capi/")) names.push_back(package_of(name));
    }
    if (names.size() < 2) continue;
    checks.push_back(
        {.area = "ONNX Runtime",
         .name = folder.string(),
         .state = State::problem,
         .found = fmt::format("{} overwrite each other's files", join(names)),
         .next = fmt::format("pip uninstall -y {}, then pip install the one that you need", join(names, " "))});
  }
  return checks;
}

std::vector<Check> check_installed_providers(bool is_quick, const ReadingListener& listener, const Machine& machine) {
  if (!is_quick) listener(ort::installed_providers_folder(machine).string());
  std::vector<Check> checks;
  for (const ort::InstalledProvider& provider :
       ort::find_installed_providers(machine, is_quick ? ort::Comparison::times : ort::Comparison::content)) {
    const std::string name = fmt::format("{}@{}", provider.name, provider.version);
    const bool is_damaged = !provider.damage.empty();
    checks.push_back({.area = "installed providers",
                      .name = name,
                      .state = is_damaged ? State::problem : State::ok,
                      .found = is_damaged ? provider.damage + ": it is not used" : provider.folder.string(),
                      .next = is_damaged ? "gpux providers install " + name : std::string()});
  }
  return checks;
}

std::vector<Check> check_plugins(const std::vector<provider::PluginFile>& plugins, const Machine& machine) {
  std::vector<Check> checks;
  for (const provider::PluginFile& plugin : plugins) {
    Check check{.area = "provider libraries",
                .name = plugin.name,
                .state = State::ok,
                .found = fmt::format("{}: {}", plugin.origin, plugin.library.string()),
                .next = {}};
    if (const auto missing = missing_libraries(plugin.library,
                                               {.also = {},
                                                .optional = {},
                                                .preferred = {plugin.library.parent_path()},
                                                .folders = provider::vendor_library_folders(machine)},
                                               machine);
        !missing.empty()) {
      check.state = State::problem;
      check.found += fmt::format("; the loader does not find {}", join(missing));
      check.next = "install what brings " + missing.front();
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_providers(const std::vector<ProviderReport>& reports, const NameOfSubject& name_of) {
  std::vector<Check> checks;
  for (const ProviderReport& report : reports) {
    Check check{.area = "providers", .name = report.id, .state = State::ok, .found = {}, .next = {}};
    if (report.available) {
      check.found = device_list(report.devices);
    } else {
      check.state = report.source.empty() ? State::absent : State::problem;
      check.found = report.reason;
      check.next = to_string(report.remedy, name_of);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace gpux::diagnosis
