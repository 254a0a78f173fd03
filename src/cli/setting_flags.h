#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "settings/setting.h"

/// Options of the command line whose texts are read when it is: a wrong one is refused before anything is opened.
namespace gpux::cli {

inline Source flag_source(std::string flag) {
  return {.kind = Source::Kind::flag, .name = std::move(flag), .place = {}};
}

/// `read(text, source)` gives the value. `names`: the long name comes last. An empty text counts as not given.
template <typename Value, typename Read>
CLI::Option* add_setting(CLI::App& command, const std::string& names, MaybeSetting<Value>& setting, const Read& read,
                         const std::string& help) {
  return command.add_option_function<std::string>(
      names,
      [&setting, read, source = flag_source(names.substr(names.rfind(',') + 1))](const std::string& text) {
        if (!text.empty()) setting = Setting<Value>{read(text, source), source};
      },
      help);
}

/// Adds a flag for a number, which CLI11 parses.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& flag, MaybeSetting<Number>& setting,
                        const std::string& help) {
  return command.add_option_function<Number>(
      flag,
      [&setting, source = flag_source(flag)](const Number& value) {
        setting = Setting<Number>{value, source};
      },
      help);
}

/// Adds a flag whose value is stored without its source.
template <typename Value, typename Read>
CLI::Option* add_value(CLI::App& command, const std::string& flag, Value& value, const Read& read,
                       const std::string& help) {
  return command.add_option_function<std::string>(
      flag,
      [&value, read, source = flag_source(flag)](const std::string& text) {
        if (!text.empty()) value = read(text, source);
      },
      help);
}

/// Adds a flag that may be given several times; each value is appended to the list.
template <typename Value, typename Read>
CLI::Option* add_list(CLI::App& command, const std::string& flag, std::vector<Value>& list, const Read& read,
                      const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&list, read, source = flag_source(flag)](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) list.push_back(read(text, source));
          },
          help)
      ->allow_extra_args(false);
}

}  // namespace gpux::cli
