#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "base/machine.h"
#include "base/temporary_folder.h"

namespace gpux::test {

/// A machine from a text with one thing a line, below a folder that goes with the object:
///   /dev/nvidia0                               an empty file; one in a folder bin is a program
///   /proc/meminfo = MemTotal: 1024 kB          a file with that text, in which \n ends a line
///   /opt/rocm/                                 a folder
///   pci 0000:01:00.0 10de:2330 030200 nvidia   a device: vendor and device, class, and its driver, if it has one
///   env HOME=/home/ada                         a variable of the environment; no others are set
/// Its loader finds the libraries of /usr/lib by name, and opens every file that exists.
class MadeMachine {
 public:
  explicit MadeMachine(const std::string& text) {
    machine_ = {.root = folder_.path(),
                .variables = std::map<std::string, std::string>{},
                .opens_library =
                    [root = folder_.path()](const std::filesystem::path& library) {
                      return std::filesystem::exists(library.is_absolute() ? library : root / "usr/lib" / library);
                    },
                .own_files = {}};
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) add(line);
  }

  MadeMachine(const MadeMachine&) = delete;
  MadeMachine& operator=(const MadeMachine&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor): it stands for the machine
  operator const Machine&() const { return machine_; }

  const Machine* operator->() const { return &machine_; }

 private:
  void add(const std::string& line) {
    std::istringstream words(line);
    std::string first, second;
    if (!(words >> first)) return;
    if (first == "pci") return add_device(words);
    if (first == "env") {
      words >> second;
      const std::size_t equals = second.find('=');
      (*machine_.variables)[second.substr(0, equals)] = second.substr(equals + 1);
      return;
    }
    if (!first.starts_with('/')) throw std::invalid_argument("no part of a machine: " + line);
    if (first.ends_with('/')) {
      std::filesystem::create_directories(machine_.at(first));
      return;
    }
    const std::size_t equals = line.find(" = ");
    add_file(first, equals == std::string::npos ? "" : line.substr(equals + 3) + "\n");
  }

  void add_file(const std::string& path, std::string text) const {
    for (std::size_t at = 0; (at = text.find("\\n", at)) != std::string::npos;) text.replace(at, 2, "\n");
    const std::filesystem::path file = folder_.write(path.substr(1), text);
    if (file.parent_path().filename() == "bin") {
      std::filesystem::permissions(file, std::filesystem::perms::owner_exec, std::filesystem::perm_options::add);
    }
  }

  void add_device(std::istringstream& words) const {
    std::string address, ids, kind, driver;
    words >> address >> ids >> kind >> driver;
    const std::string folder = "/sys/bus/pci/devices/" + address;
    add_file(folder + "/vendor", "0x" + ids.substr(0, 4) + "\n");
    add_file(folder + "/device", "0x" + ids.substr(5) + "\n");
    add_file(folder + "/class", "0x" + kind + "\n");
    if (driver.empty()) return;
    std::filesystem::create_symlink("../../../../bus/pci/drivers/" + driver, machine_.at(folder + "/driver"));
  }

  TemporaryFolder folder_;
  Machine machine_;
};

}  // namespace gpux::test
