#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "gpux/runtime.h"

namespace gpux::runtime {

/// What trials of a loaded model have found, also those of earlier processes: results are kept in the home folder, for
/// the same files, computed in the same way. One thread at a time.
class TrialMemory {
 public:
  /// The runtime must outlive it.
  explicit TrialMemory(const Runtime& runtime) : runtime_(runtime) {}

  /// The result of `attempt`, or what an earlier one found. `question`: all that the result depends on besides the
  /// model and what computes it. The first call reads the model's weights as a whole. An attempt that throws is not
  /// kept, as nothing is known of the next one.
  [[nodiscard]] bool holds(std::string_view question, const std::function<bool()>& attempt);

 private:
  const Runtime& runtime_;
  std::optional<std::filesystem::path> file_;  // of the kept results
};

}  // namespace gpux::runtime
