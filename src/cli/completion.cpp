#include <memory>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/print_json.h"
#include "gpux/error.h"
#include "manual/completion_words.h"
#include "model/open_model.h"

namespace gpux::cli {
namespace {

struct CompletionFlags {
  std::string shell;
  bool names = false;
};

void print_names(const Context& context) {
  Json list = Json::array();
  std::string lines;
  for (const StoredModel& model : open_store().list()) {
    const std::string name = model.reference.text();
    list.push_back(name);
    lines += (lines.empty() ? "" : "\n") + name;
  }
  if (context.json) {
    print_json(list);
  } else if (!lines.empty()) {
    print_data(lines);
  }
}

void print_completion(const CLI::App& program, const CompletionFlags& flags, const Context& context) {
  if (flags.names) {
    print_names(context);
    return;
  }
  if (flags.shell.empty()) throw Error(ErrorCode::usage, "for which shell? accepted: bash, zsh, fish");
  std::string script = manual::completion_script(manual::completion_words(program), flags.shell);
  if (context.json) {
    print_json({{"shell", flags.shell}, {"script", script}});
    return;
  }
  script.pop_back();  // its line feed: print_data() adds one
  print_data(script);
}

}  // namespace

void add_completion(CLI::App& program, Context& context) {
  auto flags = std::make_shared<CompletionFlags>();
  CLI::App* command = program.add_subcommand("completion", "Print the completion script for bash, zsh or fish");
  command->add_option("SHELL", flags->shell, "bash, zsh or fish")->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->add_flag("--json", context.json, "the script as a JSON string");
  command->add_flag("--names", flags->names, "the names in the store, one per line")->group("");  // for the scripts
  command->footer(
      "To use it, in ~/.bashrc, ~/.zshrc (after compinit), or once for fish:\n"
      "  source <(gpux completion bash)\n"
      "  source <(gpux completion zsh)\n"
      "  gpux completion fish > ~/.config/fish/completions/gpux.fish");
  command->callback([flags, &program, &context] { print_completion(program, *flags, context); });
}

}  // namespace gpux::cli
