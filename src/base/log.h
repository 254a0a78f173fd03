#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::log {

enum class Level : int { debug, info, warning, error, off };
enum class Format : int { text, json };

/// Messages at or above `level` go to stderr. Until this is called nothing is written: a library is silent.
void start(Level level, Format format);

/// Shows messages from `level` on where they were hidden so far.
void lower_to(Level level) noexcept;

/// What messages call the subjects that they name; before, as to_string(). Not while other threads write.
void name_subjects_by(NameOfSubject name_of);

/// The names of name_subjects_by(), for parts of messages.
[[nodiscard]] const NameOfSubject& subject_names();

/// Also writes all lines to this file, which is kept below 10 MiB by renaming it to FILE.1.
/// Error storage if it cannot be created. A line that cannot be written later is lost; stderr reports this once.
void copy_to(const std::filesystem::path& file);

/// Writes a line only to that file, for messages that users get in another way.
void note(std::string_view line);

/// A named value of a message.
struct Field {
  std::string_view name;
  std::string value;
};

[[nodiscard]] bool enabled(Level level) noexcept;
/// The fields follow the message as name=value, or are members of their own in JSON.
void write(Level level, std::string_view message, std::span<const Field> fields = {});

template <typename... Arguments>
void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename... Arguments>
void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename... Arguments>
void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::warning)) write(Level::warning, fmt::format(format, std::forward<Arguments>(arguments)...));
}

void warning(const Message& message);

template <typename... Arguments>
void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace gpux::log
