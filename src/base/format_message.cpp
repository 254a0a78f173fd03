#include "base/format_message.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <variant>

namespace gpux {
namespace {

void append(Message& message, std::string_view text) {
  if (message.empty() || std::holds_alternative<Subject>(message.back())) message.emplace_back(std::string());
  std::get<std::string>(message.back()) += text;
}

void append(Message& message, const Message& other) {
  for (const auto& part : other) {
    if (const auto* text = std::get_if<std::string>(&part)) {
      append(message, *text);
    } else {
      message.push_back(part);
    }
  }
}

// "2:x" of "{2:x}": the argument's number, or the next one, and the rest.
std::pair<std::size_t, std::string_view> read_mark(std::string_view mark, std::size_t& next) {
  std::size_t index = 0;
  const char* const end = mark.data() + mark.size();
  const auto [rest, failure] = std::from_chars(mark.data(), end, index);
  if (failure != std::errc()) return {next++, mark};
  return {index, std::string_view(rest, static_cast<std::size_t>(end - rest))};
}

}  // namespace

Message format_parts(std::string_view format, fmt::format_args arguments, NamingArguments naming) {
  Message message;
  std::size_t next = 0;
  while (!format.empty()) {
    const std::size_t brace = std::min(format.find_first_of("{}"), format.size());
    append(message, format.substr(0, brace));
    format.remove_prefix(brace);
    if (format.empty()) break;
    if (format.starts_with("{{") || format.starts_with("}}")) {
      append(message, format.substr(0, 1));
      format.remove_prefix(2);
      continue;
    }
    const std::size_t end = format.find('}');
    const auto [index, rest] = read_mark(format.substr(1, end - 1), next);
    format.remove_prefix(end + 1);
    const auto [subject, part] = naming[index];
    if (subject != nullptr) {
      message.emplace_back(*subject);
    } else if (part != nullptr) {
      append(message, *part);
    } else {
      append(message, fmt::vformat(fmt::format("{{{}{}}}", index, rest), arguments));
    }
  }
  return message;
}

}  // namespace gpux
