#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <sstream>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/address_space.h"
#include "base/home.h"
#include "base/log.h"
#include "base/own_program.h"
#include "base/scratch_folder.h"
#include "base/spelling.h"
#include "base/standard_streams.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/help.h"
#include "gpux/error.h"
#include "manual/exit_codes.h"

namespace gpux::cli {
namespace {

void interrupt(int /*signal*/) {
  // Files are written beside their place and renamed, so nothing half done stays under its name.
  constexpr int code = static_cast<int>(ErrorCode::interrupted);
  if (!end_without_scratch_folders(code)) ::_exit(code);
}

int report(bool as_json, const Error& error) {
  if (as_json) {
    log::start(log::Level::error, log::Format::json);
    log::error("{}", message_of(error));
  } else {
    write_to_standard_error(fmt::format("gpux: {}\n", message_of(error)));
  }
  return error.exit_code();
}

// The help or the version, which CLI11 would lose without a word where standard output cannot be written.
int show(const CLI::App& program, const CLI::ParseError& asked, bool as_json) {
  std::ostringstream text;
  const int code = program.exit(asked, text, text);
  std::string data = text.str();
  if (data.ends_with('\n')) data.pop_back();  // print_data() adds one
  try {
    print_data(data);
    return code;
  } catch (const ReaderLeft& error) {
    return error.exit_code();
  } catch (const Error& error) {
    return report(as_json, error);
  }
}

void collect_flags(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->parsed()) collect_flags(*command, names);
  }
}

struct Replacement {
  std::string_view word, instead;
};

std::string_view instead_of(std::string_view word, std::span<const Replacement> table) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Replacement& row) { return row.word == word; });
  return found == table.end() ? std::string_view{} : found->instead;
}

// Commands of other tools' documents that this version has not, and what there is instead.
constexpr std::array<Replacement, 11> other_commands{{
    {"registries", "'gpux login' keeps credentials in Docker's config.json"},
    {"batch", "'gpux run' takes a list of objects"},
    {"info", "use 'gpux inspect'"},
    {"show", "use 'gpux inspect'"},
    {"validate", "use 'gpux inspect'; 'gpux build' also loads the model"},
    {"init", "write gpux.yml; 'gpux schema' prints its keys and values"},
    {"remove", "use 'gpux rm'"},
    {"benchmark", "use 'gpux bench'"},
    {"optimize", "use 'gpux build --optimize'"},
    {"quantize", "use 'gpux build --quantize int8'"},
    {"convert", "this version converts nothing; export the model to ONNX where it comes from"},
}};

// The same of flags.
constexpr std::array<Replacement, 9> other_flags{{
    {"-f", "'gpux logs' has --follow"},
    {"--no-version", "leave it out"},
    {"--json-output", "use --json"},
    {"--no-json-output", "use --table"},
    {"--text", "'gpux embed' reads text; --input takes token ids"},
    {"--interactive", "this version asks nothing; --input - reads standard input"},
    {"--revision", "a stored model's version is its tag, NAME:TAG; a revision of the hub is hf.co/ORG/NAME@REVISION"},
    {"--rev", "a stored model's version is its tag, NAME:TAG; a revision of the hub is hf.co/ORG/NAME@REVISION"},
    {"--token", "set HF_TOKEN"},
}};

bool stands_for_a_command(const CLI::App& program) {
  const std::vector<std::string> not_understood = program.remaining();
  return program.get_subcommands().empty() && !not_understood.empty() && !not_understood.front().starts_with("-");
}

std::string without_value(const std::string& word) {
  return word.substr(0, word.find('='));
}

// The flag that nothing knows, as typed.
std::string flag_to_blame(const CLI::App& program, std::span<const char* const> arguments,
                          const std::vector<std::string>& known) {
  const std::vector<std::string> not_understood = program.remaining(true);
  for (const std::string word : arguments) {
    const bool refused = std::find(not_understood.begin(), not_understood.end(), word) != not_understood.end();
    if (refused && word.starts_with("-") && std::find(known.begin(), known.end(), word) == known.end()) {
      return without_value(word);
    }
  }
  return {};
}

// CLI11's own words, with the nearest known name where one was mistyped.
std::string usage_line(const CLI::App& program, std::string line, std::span<const char* const> arguments) {
  constexpr std::string_view unreadable = "Could not convert: ";
  if (const std::size_t equals = line.find(" = "); line.starts_with(unreadable) && equals != std::string::npos) {
    line = fmt::format("{} is '{}', which is no number that it takes",
                       line.substr(unreadable.size(), equals - unreadable.size()), line.substr(equals + 3));
  }
  std::vector<std::string> known;
  std::string_view instead;
  std::string word;
  if (stands_for_a_command(program)) {
    word = program.remaining().front();
    for (const CLI::App* command : program.get_subcommands({})) {
      if (!command->get_group().empty()) known.push_back(command->get_name());
    }
    line = fmt::format("'{}' is no command of gpux", word);
    instead = instead_of(word, other_commands);
  } else {
    collect_flags(program, known);
    word = flag_to_blame(program, arguments, known);
    instead = instead_of(word, other_flags);
  }
  if (!instead.empty()) {
    line += fmt::format(": {}", instead);
  } else if (const auto near = nearest(word, known); !word.empty() && !near.empty()) {
    line += fmt::format("; did you mean '{}'?", near);
  }
  const CLI::App* command = &program;
  std::string path = "gpux";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return fmt::format("{}; see '{} --help'", line, path);
}

// "Exit codes: 0 done, 2 wrong usage, …", in lines of a terminal's width.
std::string exit_codes_line() {
  constexpr std::size_t width = 100;
  std::string text = "Exit codes:";
  std::size_t line = text.size();
  for (const manual::ExitCode& code : manual::exit_codes) {
    const std::string next =
        fmt::format("{} {}{}", code.code, code.name, code.code == manual::exit_codes.back().code ? "." : ",");
    const bool fits = line + 1 + next.size() <= width;
    text += fits ? " " : "\n";
    text += next;
    line = fits ? line + 1 + next.size() : next.size();
  }
  return text;
}

log::Level level_from(const Context& context) {
  const std::string name = lower(environment_variable("GPUX_LOG_LEVEL"));
  if (context.verbosity >= 2 || name == "debug") return log::Level::debug;
  if (context.verbosity == 1 || name == "info") return log::Level::info;
  if (context.quiet || name == "error") return log::Level::error;
  if (!name.empty() && name != "warning") {
    throw Error(ErrorCode::usage, "GPUX_LOG_LEVEL is '" + name + "'; accepted: debug, info, warning, error");
  }
  return log::Level::warning;
}

struct Command {
  std::string_view name;
  void (*add)(CLI::App&, Context&);
};

/// A group of commands in the help.
struct CommandGroup {
  const char* title;
  std::vector<Command> commands;
};

// With its flags a command takes a part of a millisecond to set up: where the first word is one, the others are left
// out.
void add_commands(CLI::App& program, Context& context, std::string_view first_word) {
  const std::vector<CommandGroup> groups = {
      {"Use a model",
       {{"run", add_run},
        {"embed", add_embed},
        {"search", add_search},
        {"generate", add_generate},
        {"chat", add_chat},
        {"serve", add_serve},
        {"daemon", add_daemon},
        {"bench", add_bench},
        {"verify", add_verify},
        {"inspect", add_inspect}}},
      {"Keep models",
       {{"build", add_build},
        {"import", add_import},
        {"pull", add_pull},
        {"hub", add_hub},
        {"images", add_images},
        {"tag", add_tag},
        {"rm", add_rm},
        {"prune", add_prune}}},
      {"Pass models on",
       {{"push", add_push}, {"login", add_login}, {"logout", add_logout}, {"save", add_save}, {"load", add_load}}},
      {"Running servers",
       {{"ps", add_ps}, {"health", add_health}, {"stats", add_stats}, {"logs", add_logs}, {"stop", add_stop}}},
      {"This machine", {{"providers", add_providers}, {"doctor", add_doctor}}},
      {"Everything else", {{"schema", add_schema}, {"completion", add_completion}, {"version", add_version}}},
      {"", {{"man-pages", add_man_pages}, {"worker", add_worker}}},
  };
  // They describe all commands.
  const bool needs_all = first_word == "completion" || first_word == "man-pages";
  const auto is_first = [&](const Command& command) { return command.name == first_word && !needs_all; };
  const bool is_known = std::ranges::any_of(
      groups, [&](const CommandGroup& group) { return std::ranges::any_of(group.commands, is_first); });
  for (const CommandGroup& group : groups) {
    for (const Command& command : group.commands) {
      if (is_known && !is_first(command)) continue;
      command.add(program, context);
      program.get_subcommands({}).back()->group(group.title);
    }
  }
}

// 'gpux help COMMAND' is 'gpux COMMAND --help'.
std::vector<std::string> with_help_as_flag(std::vector<std::string> words) {
  if (words.size() < 2 || words[1] != "help") return words;
  words.erase(words.begin() + 1);
  words.emplace_back("--help");
  return words;
}

int run(int count, char** arguments) {
  const std::vector<std::string> command_line = with_help_as_flag({arguments, arguments + count});
  std::vector<const char*> words;
  for (const std::string& word : command_line) words.push_back(word.c_str());
  Context context;
  std::string log_format = environment_variable("GPUX_LOG_FORMAT");
  if (log_format.empty()) log_format = "text";
  CLI::App program(
      "Runs and serves machine learning models (ONNX, safetensors, GGUF) on the CPU, GPU or NPU of this machine,\n"
      "and reports which one ran them.",
      "gpux");
  program.formatter(help_formatter());
  program.require_subcommand(1);
  program.fallthrough();
  program.set_version_flag("--version", std::string("gpux ") + version());
  program.add_flag("-v,--verbose,!--no-verbose", context.verbosity, "more messages on stderr; -vv for all");
  program.add_flag("-q,--quiet", context.quiet, "no messages on stderr but errors");
  program.add_option("--log-format", log_format, "format of the messages on stderr")
      ->check(CLI::IsMember({"text", "json"}));
  // Set before a command runs, since commands run while the command line is parsed.
  program.parse_complete_callback([&] {
    if (log_format != "text" && log_format != "json") {
      throw Error(ErrorCode::usage, "GPUX_LOG_FORMAT is '" + log_format + "'; accepted: text, json");
    }
    log::name_subjects_by(flag_name);
    log::start(level_from(context), log_format == "json" ? log::Format::json : log::Format::text);
  });
  add_commands(program, context, words.size() > 1 ? words[1] : "");
  program.footer("'gpux help COMMAND' describes a command.\n" + exit_codes_line());
  try {
    program.parse(static_cast<int>(words.size()), words.data());
    return context.exit_code;
  } catch (const CLI::ParseError& error) {
    // Help or the version was requested, but not for an unknown command.
    const bool done = dynamic_cast<const CLI::Success*>(&error) != nullptr && !stands_for_a_command(program);
    if (done) return show(program, error, log_format == "json");
    return report(log_format == "json", Error(ErrorCode::usage, usage_line(program, error.what(), words)));
  } catch (const ReaderLeft& error) {
    return error.exit_code();
  } catch (const Error& error) {
    return report(log_format == "json", error);
  } catch (const std::bad_alloc&) {
    return report(log_format == "json", Error(ErrorCode::resource_exhausted, "out of memory"));
  } catch (const std::exception& error) {
    return report(log_format == "json", Error(ErrorCode::internal, std::string("a bug in gpux: ") + error.what()));
  }
}

}  // namespace
}  // namespace gpux::cli

// g++ has a macro for it, clang asks for a feature.
#if defined(__SANITIZE_ADDRESS__)
#define GPUX_LOOKS_FOR_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPUX_LOOKS_FOR_LEAKS 1
#endif
#endif

namespace {

// Constructors of libraries in this program open descriptors, too: the number of a closed stream must not be theirs.
[[gnu::constructor(101)]] void prepare_streams() {
  gpux::prepare_standard_streams();
}

}  // namespace

int main(int count, char** arguments) {
  gpux::reserve_few_addresses();
  std::signal(SIGINT, gpux::cli::interrupt);
  std::signal(SIGTERM, gpux::cli::interrupt);
  // The terminal has gone; after nohup that does not matter.
  if (std::signal(SIGHUP, gpux::cli::interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  // Not the path: the file may be replaced by a newer version while this one runs.
  gpux::set_worker_program("/proc/self/exe");
  const int code = gpux::cli::run(count, arguments);
  std::fflush(nullptr);
#ifdef GPUX_LOOKS_FOR_LEAKS
  if (code != static_cast<int>(gpux::ErrorCode::deadline_exceeded)) return code;  // leaks are looked for on the way out
#endif
  // Providers' threads, and runs that did not stop in time, must not meet static destructors.
  ::_exit(code);
}
