#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ort/core_search.h"
#include "provider/probe.h"

namespace gpux::diagnosis {

/// One thing that was looked at. Nothing is guessed: what cannot be known has state unknown.
struct Check {
  enum class State : unsigned char {
    ok,
    absent,   ///< not here, and nothing here asks for it
    problem,  ///< wrong, or lacking where something needs it
    unknown,
  };
  std::string area;  ///< "devices", "drivers", "gpux", "variables"
  std::string name;
  State state = State::ok;
  std::string found;  ///< what there is, or why it is wrong
  std::string next;   ///< the command to type next; may be empty
};

const char* to_string(Check::State state) noexcept;

/// Accelerators on the PCI bus with the driver each is bound to, and device files with their rights.
std::vector<Check> check_devices(const Machine& machine);

/// Checks which limits the sandbox of pulled models can enforce on this machine, in the words of the verdict. Must be
/// called while the process has only one thread.
std::vector<Check> check_sandbox();

/// Kernel drivers and the vendors' own libraries, Vulkan and OpenCL with the drivers they would load.
std::vector<Check> check_drivers(const Machine& machine);

/// Called with the file that is read next, because reading can take long.
using ReadingListener = std::function<void(const std::string& what)>;

/// GPUX_HOME and the store in it. Every stored file is read and compared with its digest, unless `is_quick`.
std::vector<Check> check_home(bool is_quick, const ReadingListener& listener);

/// Every GPUX_* variable that is set.
std::vector<Check> check_variables();

/// ONNX Runtime libraries found; `opened` is the one in use, empty where none could be opened.
std::vector<Check> check_cores(const std::vector<ort::CoreFile>& cores, const std::filesystem::path& opened);

/// Folders of Python packages into which several packages installed an ONNX Runtime: onnxruntime, onnxruntime-gpu,
/// onnxruntime-openvino and others overwrite each other's files.
std::vector<Check> check_python_packages(const Machine& machine);

/// Checks the providers that `gpux providers install` put into GPUX_HOME. Every library is compared with its digest,
/// unless `is_quick`.
std::vector<Check> check_installed_providers(bool is_quick, const ReadingListener& listener, const Machine& machine);

/// Checks the provider libraries that were found.
std::vector<Check> check_plugins(const std::vector<provider::PluginFile>& plugins, const Machine& machine);

/// One check per provider: its devices, or why it is not available and the command that installs it. Pure.
std::vector<Check> check_providers(const std::vector<ProviderReport>& reports, const NameOfSubject& name_of);

}  // namespace gpux::diagnosis
