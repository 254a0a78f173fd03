#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

template <>
struct fmt::formatter<gpux::Subject> : fmt::formatter<std::string> {
  auto format(const gpux::Subject& subject, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(gpux::to_string(subject), context);
  }
};

template <>
struct fmt::formatter<gpux::Message> : fmt::formatter<std::string> {
  auto format(const gpux::Message& message, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(gpux::to_string(message), context);
  }
};

namespace gpux {

inline Subject setting_named(std::string name) {
  return {.kind = Subject::Kind::setting, .name = std::move(name)};
}

/// `what`: "length" where it has too many tokens; empty: anything else.
inline Subject the_prompt(std::string what = {}) {
  return {.kind = Subject::Kind::prompt, .name = std::move(what)};
}

inline Subject file_at(const std::filesystem::path& path) {
  return {.kind = Subject::Kind::file, .name = path.string()};
}

/// One element per argument of a format: a pointer to it as Subject or as Message, which stay parts of the message;
/// both null for any other type.
using NamingArguments = std::span<const std::pair<const Subject*, const Message*>>;

Message format_parts(std::string_view format, fmt::format_args arguments, NamingArguments naming);

/// Formats a message as fmt::format() does, but keeps subjects as parts of the message, those of messages among the
/// arguments included. The format behind a colon does not apply to a subject. Not accepted: {:{}}.
template <typename... Arguments>
Message format_message(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const auto naming = []<typename Argument>(const Argument& argument) -> std::pair<const Subject*, const Message*> {
    if constexpr (std::is_same_v<Argument, Subject>) return {&argument, nullptr};
    if constexpr (std::is_same_v<Argument, Message>) return {nullptr, &argument};
    return {nullptr, nullptr};
  };
  const std::array<std::pair<const Subject*, const Message*>, sizeof...(Arguments)> names{naming(arguments)...};
  const fmt::string_view text = format;
  return format_parts({text.data(), text.size()}, fmt::make_format_args(arguments...), names);
}

}  // namespace gpux
