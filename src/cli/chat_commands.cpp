#include "cli/chat_commands.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/files.h"
#include "base/home.h"
#include "base/spelling.h"
#include "base/standard_streams.h"
#include "generation/chat_messages.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

constexpr std::uint64_t max_file_bytes = std::uint64_t{64} << 20;

void show(const std::string& text) {
  write_to_standard_error(text + "\n");
}

void require(const std::string& argument, std::string_view usage) {
  if (argument.empty()) throw Error(ErrorCode::usage, fmt::format("an argument is missing: {}", usage));
}

bool show_help(ChatSession& /*session*/, const std::string& /*argument*/) {
  write_to_standard_error(chat_commands_text());
  return true;
}

bool set(ChatSession& session, const std::string& argument) {
  if (argument.empty()) {
    for (const auto& [name, value] : session.settings().chosen()) show(fmt::format("{} {}", name, value));
    show(fmt::format("settings: {}", join(ChosenSettings::names())));
    return true;
  }
  const std::size_t end = std::min(argument.find_first_of(" \t"), argument.size());
  const std::size_t value = argument.find_first_not_of(" \t", end);
  require(value == std::string::npos ? std::string() : argument.substr(value), "/set NAME VALUE");
  session.settings().set(argument.substr(0, end), argument.substr(value));
  return true;
}

bool set_system(ChatSession& session, const std::string& argument) {
  session.set_system(argument);
  return true;
}

bool clear(ChatSession& session, const std::string& /*argument*/) {
  session.clear();
  return true;
}

// "~" and "~/x" as a shell has them, which does not see what is typed here.
std::filesystem::path file_named(const std::string& argument) {
  if (argument != "~" && !argument.starts_with("~/")) return argument;
  const std::string home = environment_variable("HOME");
  if (home.empty()) throw Error(ErrorCode::usage, fmt::format("'{}': HOME is not set", argument));
  return home + argument.substr(1);
}

bool save(ChatSession& session, const std::string& argument) {
  require(argument, "/save FILE");
  write_file_atomically(file_named(argument), generation::to_json(session.messages()));
  show(fmt::format("{} saved", counted(session.messages().size(), "message")));
  return true;
}

bool load(ChatSession& session, const std::string& argument) {
  require(argument, "/load FILE");
  session.set_messages(generation::read_messages(read_file(file_named(argument), max_file_bytes)));
  show(fmt::format("{} loaded", counted(session.messages().size(), "message")));
  return true;
}

bool show_statistics(ChatSession& session, const std::string& /*argument*/) {
  const std::optional<Completion>& last = session.last();
  show(fmt::format("{} in the conversation; the context has {}", counted(session.messages().size(), "message"),
                   counted(session.context_length(), "token")));
  if (!last) return true;
  show(figures_line(*last));
  show(fmt::format("{} of the prompt were in memory from earlier ones", counted(last->cached_tokens, "token")));
  return true;
}

bool leave(ChatSession& /*session*/, const std::string& /*argument*/) {
  return false;
}

struct ChatCommand {
  std::string_view name, argument, description;
  bool (*perform)(ChatSession&, const std::string&);
};

constexpr std::array<ChatCommand, 8> commands{{
    {"help", "", "show the commands", show_help},
    {"set", "NAME VALUE", "change a setting: the name of a flag, as temperature; 'default' as at the start", set},
    {"system", "TEXT", "set the message of the system; without a text, remove it", set_system},
    {"clear", "", "begin a new conversation; the message of the system stays", clear},
    {"save", "FILE", "write the messages to a file, as JSON", save},
    {"load", "FILE", "continue with the messages of a file", load},
    {"stats", "", "show the figures of the last answer", show_statistics},
    {"exit", "", "leave; so does Ctrl-D", leave},
}};

}  // namespace

std::string chat_commands_text() {
  std::string text;
  for (const ChatCommand& command : commands) {
    text += fmt::format("{:<16} {}\n", fmt::format("/{} {}", command.name, command.argument), command.description);
  }
  text +=
      "A line that ends with a backslash goes on in the next one. \"\"\" begins and ends a message of several lines.\n";
  return text + "Ctrl-C stops an answer.\n";
}

bool perform_chat_command(ChatSession& session, const std::string& name, const std::string& argument) {
  const auto* found = std::ranges::find(commands, name, &ChatCommand::name);
  if (found != commands.end()) {
    if (found->argument.empty() && !argument.empty()) {
      throw Error(ErrorCode::usage, fmt::format("/{} takes no argument, and has '{}'", name, argument));
    }
    return found->perform(session, argument);
  }
  std::vector<std::string> known;
  for (const ChatCommand& command : commands) known.push_back(fmt::format("/{}", command.name));
  const std::string_view near = nearest("/" + name, known);
  throw Error(ErrorCode::usage,
              fmt::format("'/{}' is no command{}; accepted: {}. A message that begins with a slash goes between \"\"\"",
                          name, near.empty() ? "" : fmt::format(", did you mean '{}'?", near), join(known)));
}

}  // namespace gpux::cli
