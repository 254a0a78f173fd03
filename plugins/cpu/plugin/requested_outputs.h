#pragma once

#include <string>
#include <string_view>

namespace gpux_cpu {

/// The outputs that the caller of a run reads, which ONNX Runtime does not show a node. The run option "gpux.outputs"
/// has their names, one per line; without it all are read. With the run option "gpux.logits" of "all", the logits are
/// those of each token of the run, in place of the last one of each row. For the run on this thread.
class RequestedOutputs {
 public:
  static void begin(std::string names) { names_ = std::move(names); }

  static void begin_all_logits() noexcept { has_all_logits_ = true; }

  static void end() noexcept {
    names_.clear();
    has_all_logits_ = false;
  }

  static bool has_all_logits() noexcept { return has_all_logits_; }

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
  static inline thread_local bool has_all_logits_ = false;
};

}  // namespace gpux_cpu
