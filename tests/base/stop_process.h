#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/types.h>

#include "base/eventually.h"

namespace gpux::test {

/// Sends SIGSTOP, and returns when each thread of the process has stopped: the signal alone leaves them time for a run.
/// False: one did not within two minutes.
inline bool stop_process(pid_t process) {
  ::kill(process, SIGSTOP);
  return eventually([&] {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
      std::ifstream file(thread.path() / "stat");
      std::string line;
      std::getline(file, line);
      if (line.find(") T ") == std::string::npos) return false;
    }
    return true;
  });
}

}  // namespace gpux::test
