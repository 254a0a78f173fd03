#pragma once

#include <functional>
#include <string>

#include <CLI/App.hpp>

#include "settings/load_request.h"

namespace gpux::cli {

Source flag_source(const std::string& flag);

/// An option whose text is read when the command line is: `read(text, source)` gives the value. `names`: the long name
/// comes last. An empty text counts as not given.
template <typename Value, typename Read>
CLI::Option* add_setting(CLI::App& command, const std::string& names, MaybeSetting<Value>& setting, const Read& read,
                         const std::string& help) {
  const Source source = flag_source(names.substr(names.rfind(',') + 1));
  return command.add_option_function<std::string>(
      names,
      [&setting, read, source](const std::string& text) {
        if (!text.empty()) setting = Setting<Value>{read(text, source), source};
      },
      help);
}

/// One that may be given several times.
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

/// `with_provider` is false where a command has several --provider of its own.
void add_load_flags(CLI::App& command, LoadRequest& request, bool with_provider = true);
/// --isolation, --preflight and --sandbox, and what the command's worker processes are.
void add_isolation_flag(CLI::App& command, LoadRequest& request, WorkerUse use);
void add_batch_axis_flag(CLI::App& command, LoadRequest& request);
void add_timeout_flag(CLI::App& command, LoadRequest& request);

}  // namespace gpux::cli
