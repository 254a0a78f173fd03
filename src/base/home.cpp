#include "base/home.h"

#include <cstdlib>

#include <dlfcn.h>

#include "base/machine.h"

namespace gpux {

std::filesystem::path home_folder() {
  return Machine::this_one().home_folder();
}

std::filesystem::path executable_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path own_library_path() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_library_path), &info) == 0 || info.dli_fname == nullptr) {
    return executable_path();
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  return error ? executable_path() : path;
}

const char* version() noexcept {
  return GPUX_VERSION;
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace gpux
