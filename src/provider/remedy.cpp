#include "provider/remedy.h"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "base/spelling.h"
#include "ort/core_search.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

// Where the shell would find it; empty where it would not.
fs::path on_path(const Machine& machine, const std::string& program) {
  for (const std::string& folder : split(machine.variable("PATH"), ':')) {
    const fs::path file = machine.at(folder) / program;
    if (!folder.empty() && ::faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) == 0) return file;
  }
  return {};
}

// Whether the distribution keeps pip from its own Python (PEP 668).
bool is_managed(const Machine& machine) {
  std::error_code error;
  for (fs::directory_iterator entry(machine.at("/usr/lib"), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->path().filename().string().starts_with("python3")) continue;
    if (fs::exists(entry->path() / "EXTERNALLY-MANAGED", unreadable)) return true;
  }
  return false;
}

constexpr std::string_view pip_install = "pip install ";

std::string pip_install_on(const Machine& machine) {
  const fs::path pip = on_path(machine, "pip");
  const fs::path libraries = pip.parent_path().parent_path() / "lib";
  const bool gpux_looks_there = std::ranges::any_of(ort::python_package_folders(machine), [&](const fs::path& folder) {
    return folder.string().starts_with(libraries.string() + "/");
  });
  const bool is_the_systems = pip.empty() || libraries == machine.at("/usr/lib");
  std::string command(pip_install);
  // Into ~/.local, where gpux looks too; the distribution's own folders stay as they are.
  if (is_the_systems && is_managed(machine)) {
    command += "--user --break-system-packages ";
  } else if (!gpux_looks_there) {
    command += "--user ";
  }
  return pip.empty() ? "sudo apt install python3-pip && " + command : command;
}

}  // namespace

std::string Remedies::as_typed(std::string_view remedy) {
  if (!remedy.starts_with(pip_install)) return std::string(remedy);
  if (pip_install_.empty()) pip_install_ = pip_install_on(machine_);
  return pip_install_ + std::string(remedy.substr(pip_install.size()));
}

std::string remedy_on(const Machine& machine, std::string_view remedy) {
  return Remedies(machine).as_typed(remedy);
}

}  // namespace gpux::provider
