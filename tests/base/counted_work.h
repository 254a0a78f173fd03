#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include <sys/resource.h>

namespace gpux::test {

/// What this process, or the children it has waited for, did so far: bytes read, and pages of memory touched. A
/// difference of two says how much was done in between, however slow the machine is.
struct CountedWork {
  std::uint64_t read_bytes = 0, touched_pages = 0;

  CountedWork operator-(const CountedWork& before) const {
    return {.read_bytes = read_bytes - before.read_bytes, .touched_pages = touched_pages - before.touched_pages};
  }
};

/// `who` is RUSAGE_SELF or RUSAGE_CHILDREN; the bytes are those of both.
inline CountedWork work_of(int who) {
  CountedWork work;
  std::ifstream counts("/proc/self/io");
  std::string name;
  counts >> name >> work.read_bytes;  // "rchar: N"
  rusage usage{};
  ::getrusage(who, &usage);
  work.touched_pages = static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
  return work;
}

}  // namespace gpux::test
