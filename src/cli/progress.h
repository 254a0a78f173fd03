#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/command.h"

namespace gpux::cli {

/// One line on standard error of how far a long call has come, drawn over itself some times a second, and taken away in
/// the end: "1234 texts, 56.7/s, 0:42 left". Nothing where standard error is no terminal, or with -q.
class Progress {
 public:
  /// `share` is how much of the whole is behind, 0 to 1; empty where that is not known. Asked as show() is.
  Progress(const Context& context, std::string what, std::function<std::optional<double>()> share);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Draws the progress. Called by one thread at a time.
  void show(std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  std::function<std::optional<double>()> share_;
  bool is_shown_, is_drawn_ = false;
  Clock::time_point start_, drawn_;
  double share_at_start_ = 0;
};

}  // namespace gpux::cli
