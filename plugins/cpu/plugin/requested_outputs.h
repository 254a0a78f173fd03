#pragma once

#include <string>
#include <string_view>

namespace gpux_cpu {

/// The outputs that the caller of a run reads, which ONNX Runtime does not show a node. The run option "gpux.outputs"
/// has their names, one per line; without it all are read. For the run on this thread.
class RequestedOutputs {
 public:
  static void begin(std::string names) { names_ = std::move(names); }

  static void end() noexcept { names_.clear(); }

  static bool include(std::string_view name) noexcept {
    if (names_.empty()) return true;
    for (std::string_view rest = names_; !rest.empty();) {
      const std::size_t end = rest.find('\n');
      if (rest.substr(0, end) == name) return true;
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return false;
  }

 private:
  static inline thread_local std::string names_;
};

}  // namespace gpux_cpu
