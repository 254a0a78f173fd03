#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "gpux/pull.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// Adds --pull to a command that opens a model. `when` has to live as long as the command.
void add_pull_flag(CLI::App& command, std::string& when);

/// pull_for_use() with messages and progress on standard error. `when` is the value of --pull; empty: missing.
std::string pull_argument(const std::string& model, const std::string& when, const Context& context);

/// Messages and progress of downloads on standard error, while it exists.
class PullDisplay {
 public:
  explicit PullDisplay(const Context& context);
  ~PullDisplay();
  PullDisplay(const PullDisplay&) = delete;
  PullDisplay& operator=(const PullDisplay&) = delete;

  [[nodiscard]] PullListener listener();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::cli
