#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"

namespace gpux::log {

/// A line of the log that is kept in memory.
struct RecentLine {
  std::chrono::system_clock::time_point time;
  Level level = Level::info;
  std::string message;
  std::vector<std::pair<std::string, std::string>> fields;  ///< names and values
};

/// Keeps the last `lines` lines that are written from now on in memory, for recent(); 0, as at first: none.
/// Thread-safe.
void keep_recent(std::size_t lines);

/// The lines that are kept, the oldest first. Thread-safe.
[[nodiscard]] std::vector<RecentLine> recent();

/// Keeps a line, if lines are kept. Called for each line that the log writes. Long messages are cut. Thread-safe.
void add_recent(Level level, std::string_view message, std::span<const Field> fields = {});

}  // namespace gpux::log
