#include "manual/man_pages.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "base/home.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "manual/exit_codes.h"
#include "manual/option_words.h"

namespace gpux::manual {
namespace {

constexpr std::size_t line_width = 78;

// A backslash begins an escape, and a dot or an apostrophe at the beginning of a line a macro.
std::string escaped(std::string_view text) {
  std::string result;
  if (text.starts_with('.') || text.starts_with('\'')) result = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else {
      result += c;
    }
  }
  return result;
}

bool ends_sentence(const std::string& word) {
  return word.ends_with('.') || word.ends_with('?') || word.ends_with('!');
}

// mandoc counts a character beyond ASCII as the escape that it reads it as: \[u2026].
std::size_t width_in_source(std::string_view text) {
  constexpr std::size_t escape_width = 8;
  std::size_t width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      ++width;
    } else if (byte >= 0xC0) {
      width += escape_width;
    }
  }
  return width;
}

// Short lines, and each sentence on a line of its own, as mdoc(7) asks for.
std::string wrapped(const std::string& text) {
  std::string result, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && width_in_source(line) + 1 + width_in_source(word) > line_width) {
      result += escaped(line) + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    if (ends_sentence(word)) {
      result += escaped(line) + "\n";
      line.clear();
    }
  }
  if (!line.empty()) result += escaped(line) + "\n";
  return result;
}

// "November 23, 2026"
std::string long_date(const std::string& date) {
  constexpr std::array<const char*, 12> months{"January", "February", "March",     "April",   "May",      "June",
                                               "July",    "August",   "September", "October", "November", "December"};
  unsigned year = 0, month = 0, day = 0;
  std::istringstream stream(date);
  char first = 0, second = 0;
  if (!(stream >> year >> first >> month >> second >> day) || first != '-' || second != '-' || month < 1 ||
      month > months.size() || day < 1 || day > 31) {
    throw Error(ErrorCode::usage, fmt::format("--date is '{}'; accepted: a date like 2026-01-31", date));
  }
  return fmt::format("{} {}, {}", months[month - 1], day, year);
}

std::string header(const std::string& page, const std::string& date) {
  std::string title = page;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return fmt::format(".Dd {}\n.Dt {} 1\n.Os gpux {}\n", date, title, version());
}

bool is_shown(const CLI::Option& option) {
  return !option.get_group().empty();
}

// "--host ADDRESS", "--batching exact|throughput"; empty for a flag without a value
std::string value_of(const CLI::Option& option) {
  const std::string value = placeholder(option);
  if (value.empty()) return {};
  if (option.get_items_expected_min() == 0) return fmt::format(" Ns Op = Ns Ar {}", value);
  return fmt::format(" Ar {}{}", value,
                     option.get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "");
}

std::string item(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "Fl " : " , Fl ") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "Fl -" : " , Fl -") + name;
  return fmt::format(".It {}{}\n{}", names, value_of(option), wrapped(full_description(option)));
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text = ".Bl -tag -width Ds\n";
  for (const std::string& one : items) text += one;
  return text + ".El\n";
}

// The flags by their groups in the help, the first of them without a heading.
std::string options_of(const CLI::App& app) {
  std::string text;
  for (const std::string& group : app.get_groups()) {
    std::vector<std::string> items;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == group && is_shown(*option) && !option->get_positional())
        items.push_back(item(*option));
    }
    if (items.empty()) continue;
    text += text.empty() ? ".Sh OPTIONS\n" : fmt::format(".Ss {}\n", group);
    text += list_of(items);
  }
  return text;
}

/// What a command's help ends with, apart.
struct Footer {
  std::string description, examples;
};

// Paragraphs, with the indented lines as they are.
std::string paragraphs(const std::vector<std::string>& lines) {
  std::string text, paragraph;
  bool is_literal = false;
  const auto end_paragraph = [&] {
    text += wrapped(paragraph);
    paragraph.clear();
  };
  for (const std::string& line : lines) {
    const bool is_indented = line.starts_with("  ");
    if (is_indented != is_literal) {
      end_paragraph();
      text += is_indented ? ".Bd -literal -offset indent\n" : ".Ed\n.Pp\n";
      is_literal = is_indented;
    }
    if (is_indented) {
      text += escaped(line.substr(2)) + "\n";
    } else {
      paragraph += " " + line;
    }
  }
  end_paragraph();
  return text + (is_literal ? ".Ed\n" : "");
}

Footer footer_of(const CLI::App& app) {
  std::vector<std::string> before, after;
  bool has_examples = false;
  std::istringstream lines(app.get_footer());
  for (std::string line; std::getline(lines, line);) {
    if (line == "Example:" || line == "Examples:") {
      has_examples = true;
    } else if (!line.empty()) {
      (has_examples ? after : before).push_back(line);
    }
  }
  return {paragraphs(before), paragraphs(after)};
}

std::string argument(const CLI::Option& option) {
  const std::string more = option.get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "";
  return fmt::format("{} Ar {}{}", option.get_required() ? "" : ".Op", option.get_name(), more);
}

std::string command_page(const CLI::App& app, const std::string& date) {
  const std::string page = "gpux-" + app.get_name();
  const std::string description = app.get_description();
  std::string text = header(page, date);
  text += fmt::format(".Sh NAME\n.Nm {}\n.Nd {}\n", page, escaped(description));
  text += fmt::format(".Sh SYNOPSIS\n.Nm gpux {}\n.Op Ar OPTION ...\n", app.get_name());
  std::vector<std::string> arguments;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || !is_shown(*option)) continue;
    const std::string usage = argument(*option);
    text += (usage.starts_with(" Ar") ? "." + usage.substr(1) : usage) + "\n";
    arguments.push_back(fmt::format(".It Ar {}\n{}", option->get_name(), wrapped(option->get_description())));
  }
  text += ".Sh DESCRIPTION\n" + wrapped(description + ".");
  if (const std::vector<std::string>& aliases = app.get_aliases(); !aliases.empty()) {
    text += wrapped(fmt::format("Also {}.", join(aliases, ", ")));
  }
  const Footer footer = footer_of(app);
  if (!footer.description.empty()) text += ".Pp\n" + footer.description;
  if (!arguments.empty()) text += ".Pp\nThe arguments are:\n" + list_of(arguments);
  text += options_of(app);
  text += ".Sh EXIT STATUS\nSee\n.Xr gpux 1 .\n";
  if (!footer.examples.empty()) text += ".Sh EXAMPLES\n" + footer.examples;
  return text + ".Sh SEE ALSO\n.Xr gpux 1\n";
}

// The commands by their groups in the help, without those that it hides.
std::vector<std::pair<std::string, std::vector<const CLI::App*>>> groups_of(const CLI::App& program) {
  std::vector<std::pair<std::string, std::vector<const CLI::App*>>> groups;
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    if (groups.empty() || groups.back().first != command->get_group()) groups.push_back({command->get_group(), {}});
    groups.back().second.push_back(command);
  }
  return groups;
}

std::string program_page(const CLI::App& program, const std::string& date) {
  std::string text = header("gpux", date);
  text += ".Sh NAME\n.Nm gpux\n.Nd run ONNX models on the hardware of this machine\n";
  text += ".Sh SYNOPSIS\n.Nm\n.Op Ar OPTION ...\n.Ar COMMAND\n.Op Ar ARGUMENT ...\n";
  text += ".Sh DESCRIPTION\n" + wrapped(program.get_description());
  for (const auto& [group, commands] : groups_of(program)) {
    text += fmt::format(".Ss {}\n", group);
    std::vector<std::string> items;
    for (const CLI::App* command : commands) {
      items.push_back(fmt::format(".It Xr gpux-{} 1\n{}", command->get_name(), wrapped(command->get_description())));
    }
    text += list_of(items);
  }
  text += options_of(program);
  std::vector<std::string> items;
  for (const ExitCode& code : exit_codes) items.push_back(fmt::format(".It {}\n{}", code.code, wrapped(code.meaning)));
  text += ".Sh EXIT STATUS\n" + list_of(items);
  std::vector<std::string> pages;
  for (const auto& [group, commands] : groups_of(program)) {
    for (const CLI::App* command : commands) pages.push_back(fmt::format(".Xr gpux-{} 1", command->get_name()));
  }
  std::sort(pages.begin(), pages.end());
  return text + ".Sh SEE ALSO\n" + join(pages, " ,\n") + "\n";
}

}  // namespace

std::vector<ManPage> man_pages(const CLI::App& program, const std::string& date) {
  const std::string day = long_date(date);
  std::vector<ManPage> pages{{"gpux.1", program_page(program, day)}};
  for (const auto& [group, commands] : groups_of(program)) {
    for (const CLI::App* command : commands) {
      pages.push_back({fmt::format("gpux-{}.1", command->get_name()), command_page(*command, day)});
    }
  }
  return pages;
}

}  // namespace gpux::manual
