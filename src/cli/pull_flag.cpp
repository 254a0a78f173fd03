#include "cli/pull_flag.h"

#include <optional>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include "cli/progress.h"

namespace gpux::cli {

void add_pull_flag(CLI::App& command, std::string& when) {
  command.add_option("--pull", when, "download MODEL if it is an address: missing (default), always, never")
      ->check(CLI::IsMember({"missing", "always", "never"}));
}

struct PullDisplay::State {
  explicit State(const Context& the_context) : context(the_context) {}

  const Context& context;
  std::optional<Progress> progress;
  double share = 0;
};

PullDisplay::PullDisplay(const Context& context) : state_(std::make_unique<State>(context)) {}

PullDisplay::~PullDisplay() = default;

PullListener PullDisplay::listener() {
  State& state = *state_;
  return {.on_progress =
              [&state](const PullProgress& progress) {
                constexpr std::uint64_t megabyte = 1'000'000;
                state.share =
                    progress.bytes == 0 ? 0 : static_cast<double>(progress.done) / static_cast<double>(progress.bytes);
                if (!state.progress) {
                  state.progress.emplace(state.context, "MB",
                                         [&state]() -> std::optional<double> { return state.share; });
                }
                state.progress->show(progress.done / megabyte);
              },
          .on_message =
              [&state](const std::string& line) {
                state.progress.reset();
                say(state.context, line);
              }};
}

std::string pull_argument(const std::string& model, const std::string& when, const Context& context) {
  const PullWhen choice = when == "always" ? PullWhen::always : when == "never" ? PullWhen::never : PullWhen::missing;
  if (!is_full_reference(model)) return model;
  PullDisplay display(context);
  return pull_for_use(model, choice, {}, display.listener());
}

}  // namespace gpux::cli
