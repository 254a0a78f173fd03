#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace gpux::log {

enum class Level : int { debug, info, warning, error, off };
enum class Format : int { text, json };

/// Messages at or above `level` go to stderr. Until this is called nothing is written: a library is silent.
void start(Level level, Format format);

[[nodiscard]] bool enabled(Level level) noexcept;
void write(Level level, std::string_view message);

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

template <typename... Arguments>
void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace gpux::log
