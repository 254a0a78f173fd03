#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "generation/slot_table.h"

namespace gpux::generation {

/// A text of the run that is under way in a worker process.
struct WatchedText {
  SequenceId id = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// When it was cancelled or its deadline passed; empty: it is waited for.
  std::optional<std::chrono::steady_clock::time_point> unwanted_since;
};

struct WatchedRun {
  std::chrono::steady_clock::time_point began;
  std::vector<WatchedText> texts;
  /// When it has to be stopped whatever its texts want. A copy of keys and values has no texts.
  std::optional<std::chrono::steady_clock::time_point> limit = {};
};

/// When the run has to be stopped: at once where nobody waits for it; where somebody does, once it has gone on for
/// `grace` with a text that nobody waits for, as a run that hangs would; at its limit anyway. Empty: not as things are.
/// Pure.
std::optional<std::chrono::steady_clock::time_point> stop_time(const WatchedRun& run, std::chrono::milliseconds grace);

}  // namespace gpux::generation
