#include "base/home.h"

#include <cstdlib>

#include <dlfcn.h>
#include <pwd.h>
#include <unistd.h>

#include "gpux/error.h"

namespace gpux {

std::filesystem::path home_folder() {
  if (std::string home = environment_variable("GPUX_HOME"); !home.empty()) return std::filesystem::absolute(home);
  if (std::string home = environment_variable("HOME"); !home.empty()) return std::filesystem::path(home) / ".gpux";
  if (const passwd* user = ::getpwuid(::getuid()); user != nullptr && user->pw_dir != nullptr) {
    return std::filesystem::path(user->pw_dir) / ".gpux";
  }
  throw Error(ErrorCode::storage, "neither GPUX_HOME nor HOME is set: set GPUX_HOME to a folder");
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
