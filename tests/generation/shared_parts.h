#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace gpux::generation {

/// Parts of this process's memory that slots map in place of their own (generation/shared_rows.h).
inline std::size_t shared_parts() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:gpux-rows") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace gpux::generation
