#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpux::manual {

/// Values that shell completion offers after a flag or for a positional argument.
struct CompletionValue {
  enum class Kind : unsigned char {
    none,    ///< the flag takes no value
    text,    ///< anything: nothing to offer
    choice,  ///< one of `choices`
    file,    ///< files, with `choices` beside them
  };
  Kind kind = Kind::none;
  std::vector<std::string> choices;
};

/// One flag of the command line.
struct CompletionFlag {
  std::vector<std::string> names;  ///< "--provider", "-p"
  std::string description;         ///< one line
  CompletionValue value;
};

/// One command.
struct CompletionCommand {
  std::string name, description;
  std::vector<CompletionFlag> flags;  ///< its own, then those of every command
  bool takes_models = false;          ///< its arguments are models: files and names of the store
  std::vector<std::string> choices;   ///< its first argument is one of these
};

/// The command line as the program itself understands it.
struct CompletionWords {
  std::vector<CompletionFlag> flags;  ///< those of every command
  std::vector<CompletionCommand> commands;
};

CompletionWords completion_words(const CLI::App& program);

/// A script for "bash", "zsh" or "fish", to be sourced or installed.
std::string completion_script(const CompletionWords& words, const std::string& shell);

}  // namespace gpux::manual
