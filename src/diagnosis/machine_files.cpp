#include "diagnosis/machine_files.h"

#include <fstream>
#include <system_error>

namespace gpux::diagnosis {

bool present(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace gpux::diagnosis
