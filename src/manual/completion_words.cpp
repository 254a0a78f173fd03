#include "manual/completion_words.h"

#include <algorithm>

#include <CLI/App.hpp>

#include "base/spelling.h"
#include "manual/option_words.h"
#include "provider/table.h"

namespace gpux::manual {
namespace {

using Kind = CompletionValue::Kind;

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Flags that are completed with words that CLI11 does not check.
struct KnownValue {
  const char* flag;
  std::vector<std::string> choices;
};

const std::vector<KnownValue>& known_values() {
  static const std::vector<KnownValue> known = {
      {"provider", provider::accepted_names()},
      {"reference", provider::accepted_names()},
      {"precision", {"fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16", "any"}},
      {"optimization-level", {"disabled", "basic", "extended", "layout", "all"}},
      {"level", {"none", "low", "medium", "high"}},
  };
  return known;
}

CompletionValue value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {Kind::none, {}};
  for (const KnownValue& known : known_values()) {
    if (option.check_lname(known.flag)) return {Kind::choice, known.choices};
  }
  if (const auto choices = choices_of(option); !choices.empty()) return {Kind::choice, choices};
  return {takes_path(option) ? Kind::file : Kind::text, {}};
}

std::vector<CompletionFlag> flags_of(const CLI::App& app) {
  std::vector<CompletionFlag> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || option->get_group().empty()) continue;
    CompletionFlag flag{.names = {}, .description = one_line(option->get_description()), .value = value_of(*option)};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    flags.push_back(std::move(flag));
  }
  return flags;
}

}  // namespace

CompletionWords completion_words(const CLI::App& program) {
  require_known_placeholders(program);
  CompletionWords words;
  words.flags = flags_of(program);
  for (const CLI::App* app : program.get_subcommands({})) {
    if (app->get_group().empty()) continue;  // the help hides it, too
    CompletionCommand command;
    command.name = app->get_name();
    command.description = one_line(app->get_description());
    command.flags = flags_of(*app);
    for (const CompletionFlag& flag : words.flags) {
      const bool has_it = std::any_of(command.flags.begin(), command.flags.end(),
                                      [&](const CompletionFlag& own) { return own.names == flag.names; });
      if (!has_it) command.flags.push_back(flag);
    }
    for (const CLI::Option* option : app->get_options()) {
      if (!option->get_positional()) continue;
      command.choices = choices_of(*option);
      command.takes_models = command.choices.empty() && option->get_name() != "SERVER" &&
                             option->get_name() != "TEXT" && option->get_name() != "QUERY";
      break;
    }
    words.commands.push_back(command);
    for (const std::string& alias : app->get_aliases()) {
      command.name = alias;
      words.commands.push_back(command);
    }
  }
  return words;
}

}  // namespace gpux::manual
