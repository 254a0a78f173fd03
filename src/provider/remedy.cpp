#include "provider/remedy.h"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "base/format_message.h"
#include "base/spelling.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;

// Whether the shell would find it.
bool is_on_path(const Machine& machine, const std::string& program) {
  return std::ranges::any_of(split(machine.variable("PATH"), ':'), [&](const std::string& folder) {
    const fs::path file = machine.at(folder) / program;
    return !folder.empty() && ::faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) == 0;
  });
}

constexpr std::string_view install = "gpux providers install ";

}  // namespace

std::string Remedies::as_typed(std::string_view remedy) {
  if (!remedy.starts_with(install)) return std::string(remedy);
  if (!has_pip_) has_pip_ = is_on_path(machine_, "pip") || is_on_path(machine_, "pip3");
  return *has_pip_ ? std::string(remedy) : "sudo apt install python3-pip && " + std::string(remedy);
}

Message ask_first(std::string_view id) {
  return format_message("ask for it first: {} {}", setting_named("provider"), id);
}

std::string remedy_on(const Machine& machine, std::string_view remedy) {
  return Remedies(machine).as_typed(remedy);
}

}  // namespace gpux::provider
