#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpux::cli {

/// Labels of the caller's choice for zero-shot classification.
struct LabelFlags {
  std::vector<std::string> labels;
  std::string label_template;  ///< empty: the task's default
  bool multi_label = false;

  [[nodiscard]] bool given() const noexcept { return !labels.empty() || !label_template.empty() || multi_label; }
};

/// --labels, --template, --multi-label. `flags` has to live as long as the command.
void add_label_flags(CLI::App& command, LabelFlags& flags);

}  // namespace gpux::cli
