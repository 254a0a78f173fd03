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
#include "diagnosis/machine_report.h"
#include "gpux/error.h"
#include "model/load_settings.h"
#include "model/open_model.h"
#include "ort/core.h"

extern char** environ;

namespace gpux::diagnosis {
namespace {

namespace fs = std::filesystem;
using State = Check::State;

bool present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Not read_file(): files of /proc and /sys have no size. Empty where it cannot be read.
std::string first_line(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool may(const fs::path& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

bool loader_finds(const std::string& library) {
  return missing_libraries({}, {.also = {library}, .folders = {}}).empty();
}

// Where the shell would find it; empty where it would not.
fs::path on_path(const std::string& program) {
  for (const std::string& folder : split(environment_variable("PATH"), ':')) {
    if (!folder.empty() && may(fs::path(folder) / program, X_OK)) return fs::path(folder) / program;
  }
  return {};
}

bool has_vendor(std::initializer_list<std::uint16_t> vendors) {
  for (const PciDevice& device : pci_accelerators()) {
    if (std::find(vendors.begin(), vendors.end(), device.vendor_id) != vendors.end()) return true;
  }
  return false;
}

Check pci_check(const PciDevice& device) {
  Check check{.area = "devices",
              .name = device.address,
              .state = State::ok,
              .found = fmt::format("{} {:04x}:{:04x}", vendor_name(device), device.vendor_id, device.device_id),
              .next = {}};
  std::error_code error;
  const fs::path driver = fs::read_symlink(fs::path("/sys/bus/pci/devices") / device.address / "driver", error);
  if (!error) {
    check.found += ", driver " + driver.filename().string();
    return check;
  }
  check.state = error == std::errc::no_such_file_or_directory ? State::problem : State::unknown;
  check.found += check.state == State::problem ? ", no driver is bound to it" : ", driver unknown: " + error.message();
  if (check.state == State::problem && device.vendor_id == 0x10de) check.next = "sudo apt install nvidia-driver";
  return check;
}

Check device_file_check(const fs::path& file) {
  Check check{
      .area = "devices", .name = file.string(), .state = State::ok, .found = "readable and writable", .next = {}};
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

std::vector<fs::path> device_files() {
  std::vector<fs::path> files;
  for (const char* name : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd", "/dev/dxg"}) {
    if (present(name)) files.emplace_back(name);
  }
  const std::array<std::pair<const char*, const char*>, 3> kinds{
      {{"/dev", "nvidia"}, {"/dev/dri", "renderD"}, {"/dev/accel", "accel"}}};
  for (const auto& [folder, prefix] : kinds) {
    for (const fs::path& entry : entries(folder)) {
      const std::string name = entry.filename();
      const std::string number = name.substr(std::min(name.size(), std::strlen(prefix)));
      const bool is_device = name.starts_with(prefix) && !number.empty() &&
                             std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (is_device) files.push_back(entry);
    }
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

Check kernel_module(const std::string& module, bool is_needed) {
  const fs::path folder = fs::path("/sys/module") / module;
  const std::string version = first_line(folder / "version");
  return part("kernel module " + module, present(folder), version.empty() ? "loaded, version unknown" : version,
              is_needed, "sudo modprobe " + module);
}

Check library(const std::string& name, bool is_needed, const std::string& next) {
  if (loader_finds(name)) return part(name, true, "the loader finds it", is_needed, next);
  for (const fs::path& folder : provider::vendor_library_folders()) {
    if (present(folder / name)) return part(name, true, (folder / name).string(), is_needed, next);
  }
  return part(name, false, {}, is_needed, next);
}

Check nvidia_kernel_driver(bool is_needed) {
  const fs::path file = "/proc/driver/nvidia/version";
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
std::vector<fs::path> vulkan_manifests() {
  std::string given = environment_variable("VK_DRIVER_FILES");
  if (given.empty()) given = environment_variable("VK_ICD_FILENAMES");
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
  const std::string home = environment_variable("HOME");
  add_list(or_else(environment_variable("XDG_CONFIG_HOME"), home.empty() ? "" : (home + "/.config").c_str()));
  add_list(or_else(environment_variable("XDG_CONFIG_DIRS"), "/etc/xdg"));
  add_list("/usr/local/etc:/etc");
  add_list(or_else(environment_variable("XDG_DATA_HOME"), home.empty() ? "" : (home + "/.local/share").c_str()));
  add_list(or_else(environment_variable("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"));
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    for (const fs::path& entry : entries(folder)) {
      if (entry.extension() == ".json" && seen.insert(entry).second) manifests.push_back(entry);
    }
  }
  return manifests;
}

Check vulkan_driver(const fs::path& manifest) {
  Check check{.area = "drivers",
              .name = "Vulkan driver " + manifest.filename().string(),
              .state = State::problem,
              .found = {},
              .next = {}};
  std::string text;
  try {
    text = read_file(manifest, std::uint64_t{1} << 20);
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
  const bool is_there = file.empty() ? loader_finds(path) : present(file);
  check.state = is_there ? State::ok : State::problem;
  check.found = is_there ? path : fmt::format("its library '{}' does not exist", path);
  return check;
}

std::vector<Check> check_vulkan(bool has_gpu) {
  std::vector<Check> checks;
  checks.push_back(library("libvulkan.so.1", has_gpu, "sudo apt install libvulkan1"));
  const std::vector<fs::path> manifests = vulkan_manifests();
  for (const fs::path& manifest : manifests) checks.push_back(vulkan_driver(manifest));
  if (manifests.empty()) {
    // NVIDIA's own comes with its driver.
    const bool is_mesas = has_vendor({0x8086, 0x1002});
    checks.push_back(part("Vulkan drivers", false, {}, is_mesas, "sudo apt install mesa-vulkan-drivers"));
  }
  return checks;
}

std::vector<Check> check_opencl() {
  std::vector<Check> checks;
  const bool has_intel = has_vendor({0x8086});
  checks.push_back(library("libOpenCL.so.1", has_intel, "sudo apt install ocl-icd-libopencl1"));
  std::vector<std::string> drivers;
  for (const fs::path& entry : entries("/etc/OpenCL/vendors")) {
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
  check.found = there == home ? "writable" : "not made yet; it can be";
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

std::vector<Check> check_devices() {
  std::vector<Check> checks;
  if (!present("/sys/bus/pci/devices")) {
    checks.push_back({.area = "devices",
                      .name = "PCI bus",
                      .state = State::unknown,
                      .found = "there is none to read, as in some containers",
                      .next = {}});
  }
  for (const PciDevice& device : pci_accelerators()) checks.push_back(pci_check(device));
  for (const fs::path& file : device_files()) checks.push_back(device_file_check(file));
  if (checks.empty()) {
    checks.push_back({.area = "devices",
                      .name = "accelerators",
                      .state = State::absent,
                      .found = "none on the PCI bus, no device files",
                      .next = {}});
  }
  return checks;
}

std::vector<Check> check_drivers() {
  const bool has_nvidia = has_vendor({0x10de}) || present("/dev/nvidiactl");
  const bool has_amd = has_vendor({0x1002});
  const bool has_gpu = has_nvidia || has_amd || has_vendor({0x8086});
  std::vector<Check> checks;
  checks.push_back(nvidia_kernel_driver(has_nvidia));
  checks.push_back(library("libcuda.so.1", has_nvidia, "sudo apt install libcuda1"));
  checks.push_back(kernel_module("amdgpu", has_amd));
  const std::string rocm = first_line("/opt/rocm/.info/version");
  checks.push_back(part("ROCm", present("/opt/rocm"), rocm.empty() ? "/opt/rocm, version unknown" : rocm, has_amd,
                        "install ROCm by AMD's instructions (amdgpu-install --usecase=rocm)"));
  for (const char* module : {"i915", "xe", "intel_vpu", "amdxdna"}) checks.push_back(kernel_module(module, false));
  for (auto&& more : {check_vulkan(has_gpu), check_opencl()}) checks.insert(checks.end(), more.begin(), more.end());
  return checks;
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

std::vector<Check> check_plugins(const std::vector<provider::PluginFile>& plugins) {
  std::vector<Check> checks;
  for (const provider::PluginFile& plugin : plugins) {
    Check check{.area = "provider libraries",
                .name = plugin.name,
                .state = State::ok,
                .found = fmt::format("{}: {}", plugin.origin, plugin.library.string()),
                .next = {}};
    if (const auto missing =
            missing_libraries(plugin.library, {.also = {}, .folders = provider::vendor_library_folders()});
        !missing.empty()) {
      check.state = State::problem;
      check.found += fmt::format("; the loader does not find {}", join(missing));
      check.next = "install what brings " + missing.front();
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_providers(const std::vector<ProviderReport>& reports) {
  std::vector<Check> checks;
  for (const ProviderReport& report : reports) {
    Check check{.area = "providers", .name = report.id, .state = State::ok, .found = {}, .next = {}};
    if (report.available) {
      check.found = device_list(report.devices);
    } else {
      check.state = report.source.empty() ? State::absent : State::problem;
      check.found = report.reason;
      check.next = command_here(report.remedy);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::string command_here(const std::string& remedy) {
  constexpr std::string_view pip = "pip install ";
  if (!remedy.starts_with(pip)) return remedy;
  const fs::path pip_program = on_path("pip");
  const std::string prefix = (pip_program.parent_path().parent_path() / "lib").string() + "/";
  bool gpux_looks_there = false;
  for (const fs::path& folder : ort::python_package_folders()) {
    gpux_looks_there = gpux_looks_there || folder.string().starts_with(prefix);
  }
  bool is_managed = false;
  for (const fs::path& entry : entries("/usr/lib")) {
    const bool is_python = entry.filename().string().starts_with("python3");
    is_managed = is_managed || (is_python && present(entry / "EXTERNALLY-MANAGED"));
  }
  std::string command = remedy;
  // Into ~/.local, where gpux looks too; the distribution's own folders stay as they are.
  const bool is_the_systems = pip_program.empty() || prefix == "/usr/lib/";
  if (is_the_systems && is_managed) {
    command = "pip install --user --break-system-packages " + remedy.substr(pip.size());
  } else if (!gpux_looks_there) {
    command = "pip install --user " + remedy.substr(pip.size());
  }
  if (pip_program.empty()) command = "sudo apt install python3-pip && " + command;
  return command;
}

}  // namespace gpux::diagnosis
