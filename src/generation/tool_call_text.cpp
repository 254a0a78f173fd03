#include "generation/tool_call_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "generation/json_extent.h"

namespace gpux::generation {
namespace {

using Json = nlohmann::json;

constexpr std::string_view blanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Takes values off a text that is known to be JSON.
class JsonParts {
 public:
  explicit JsonParts(std::string_view json) : rest_(trimmed(json)) { rest_.remove_prefix(1); }

  /// The next element, key or value, as it is written; empty at the end.
  std::string_view next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n,:"), rest_.size()));
    if (rest_.empty() || rest_.front() == ']' || rest_.front() == '}') return {};
    const std::string_view part = rest_.substr(0, size());
    rest_.remove_prefix(part.size());
    return part;
  }

 private:
  [[nodiscard]] std::size_t size() const {
    if (rest_.front() == '{' || rest_.front() == '[') {
      JsonExtent extent;
      extent.read(rest_);
      return extent.size();
    }
    if (rest_.front() != '"') return std::min(rest_.find_first_of(" \t\r\n,]}"), rest_.size());
    std::size_t end = 1;
    while (rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    return end + 1;
  }

  std::string_view rest_;
};

bool is_object(std::string_view json) {
  return json.starts_with('{');
}

std::optional<std::string> arguments_of(std::string_view json) {
  if (json.empty() || json == "null") return "{}";
  if (is_object(json)) return std::string(json);
  if (!json.starts_with('"')) return std::nullopt;
  const std::string text = Json::parse(json).get<std::string>();
  const std::string_view object = trimmed(text);
  if (!is_object(object) || !is_json(object)) return std::nullopt;
  return std::string(object);
}

// The members of a call, or of the function within it.
struct CallMembers {
  std::string_view name, arguments, function, id;

  explicit CallMembers(std::string_view object) {
    JsonParts parts(object);
    for (std::string_view key = parts.next(); !key.empty(); key = parts.next()) {
      const std::string_view value = parts.next();
      const std::string word = Json::parse(key).get<std::string>();
      if (word == "name" || word == "tool_name") name = value;
      if (word == "arguments" || word == "parameters") arguments = value;
      if (word == "function") function = value;
      if (word == "id") id = value;
    }
  }
};

std::optional<ToolCall> call_of(std::string_view object, std::span<const std::string> functions) {
  if (!is_object(object)) return std::nullopt;
  CallMembers members(object);
  const std::string_view id = members.id;
  if (is_object(members.function)) members = CallMembers(members.function);
  if (!members.name.starts_with('"')) return std::nullopt;
  ToolCall call;
  call.name = Json::parse(members.name).get<std::string>();
  if (std::ranges::find(functions, call.name) == functions.end()) return std::nullopt;
  std::optional<std::string> arguments = arguments_of(members.arguments);
  if (!arguments) return std::nullopt;
  call.arguments = *std::move(arguments);
  if (id.starts_with('"')) call.id = Json::parse(id).get<std::string>();
  return call;
}

/// Reads Python's calls and literals. Each function takes what it reads off the text, or gives nothing.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : rest_(text) {}

  std::optional<std::vector<ToolCall>> calls() {
    const bool is_list = take('[');
    std::vector<ToolCall> calls;
    for (;;) {
      skip(is_list ? " \t\r\n," : " \t\r\n;");
      if (rest_.empty() || (is_list && rest_.front() == ']')) break;
      std::optional<ToolCall> one = call();
      if (!one) return std::nullopt;
      calls.push_back(*std::move(one));
    }
    if (is_list && (!take(']') || !trimmed(rest_).empty())) return std::nullopt;
    if (calls.empty()) return std::nullopt;
    return calls;
  }

  /// All of the text.
  std::optional<std::string> whole_literal() {
    std::optional<std::string> value = literal(0);
    return value && trimmed(rest_).empty() ? value : std::nullopt;
  }

 private:
  static constexpr int max_depth = 32;

  void skip(std::string_view these = blanks) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(these), rest_.size()));
  }

  bool take(char c) {
    skip();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view name(std::string_view more) {
    skip();
    std::size_t size = 0;
    while (size < rest_.size() && (is_letter(rest_[size]) || more.find(rest_[size]) != std::string_view::npos)) ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }

  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  std::optional<ToolCall> call() {
    ToolCall made;
    made.name = name("0123456789.-");
    if (made.name.empty() || !take('(')) return std::nullopt;
    for (bool is_first = true; !take(')'); is_first = false) {
      if (!is_first && !take(',')) return std::nullopt;
      if (take(')')) break;
      const std::string key(name("0123456789"));
      if (key.empty() || !take('=')) return std::nullopt;
      const std::optional<std::string> value = literal(0);
      if (!value) return std::nullopt;
      made.arguments += fmt::format("{}{}: {}", made.arguments.empty() ? "{" : ", ", Json(key).dump(), *value);
    }
    made.arguments += made.arguments.empty() ? "{}" : "}";
    return made;
  }

  std::optional<std::string> literal(int depth) {
    skip();
    if (rest_.empty() || depth > max_depth) return std::nullopt;
    const char first = rest_.front();
    if (first == '\'' || first == '"') return string();
    if (first == '[' || first == '(') return items(first == '[' ? ']' : ')', depth, false);
    if (first == '{') return items('}', depth, true);
    if (take_word("True") || take_word("true")) return "true";
    if (take_word("False") || take_word("false")) return "false";
    if (take_word("None") || take_word("null")) return "null";
    const std::string_view number = rest_.substr(0, rest_.find_first_not_of("0123456789+-.eE"));
    if (!is_json(number)) return std::nullopt;
    rest_.remove_prefix(number.size());
    return std::string(number);
  }

  std::optional<std::string> items(char end, int depth, bool has_keys) {
    rest_.remove_prefix(1);
    std::string json(1, has_keys ? '{' : '[');
    for (bool is_first = true; !take(end); is_first = false) {
      if (!is_first && !take(',')) return std::nullopt;
      if (take(end)) break;
      if (!is_first) json += ", ";
      const std::optional<std::string> one = literal(depth + 1);
      if (!one || (has_keys && (!one->starts_with('"') || !take(':')))) return std::nullopt;
      json += *one;
      if (!has_keys) continue;
      const std::optional<std::string> value = literal(depth + 1);
      if (!value) return std::nullopt;
      json += ": " + *value;
    }
    return json += has_keys ? '}' : ']';
  }

  std::optional<std::string> string() {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string text;
    while (!rest_.empty() && rest_.front() != quote) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\') {
        constexpr std::string_view escapes = "nrt\\'\"", meanings = "\n\r\t\\'\"";
        const std::size_t which = rest_.empty() ? std::string_view::npos : escapes.find(rest_.front());
        if (which == std::string_view::npos) return std::nullopt;
        c = meanings[which];
        rest_.remove_prefix(1);
      }
      text += c;
    }
    if (rest_.empty()) return std::nullopt;
    rest_.remove_prefix(1);
    return Json(text).dump();
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::vector<ToolCall>> read_json_calls(std::string_view json, std::span<const std::string> functions) {
  json = trimmed(json);
  if (!is_object(json) && !json.starts_with('[')) return std::nullopt;
  JsonExtent extent;
  const bool is_whole = extent.read(json) == JsonExtent::State::complete && extent.size() == json.size();
  if (!is_whole || !is_json(json)) return std::nullopt;
  std::vector<ToolCall> calls;
  const auto add = [&](std::string_view object) {
    std::optional<ToolCall> call = call_of(object, functions);
    if (!call) return false;
    calls.push_back(*std::move(call));
    return true;
  };
  if (is_object(json)) {
    if (!add(json)) return std::nullopt;
    return calls;
  }
  JsonParts parts(json);
  for (std::string_view one = parts.next(); !one.empty(); one = parts.next()) {
    if (!add(one)) return std::nullopt;
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

std::optional<std::vector<ToolCall>> read_python_calls(std::string_view text, std::span<const std::string> functions) {
  if (!is_utf8(text)) return std::nullopt;
  std::optional<std::vector<ToolCall>> calls = PythonReader(text).calls();
  if (!calls) return std::nullopt;
  for (ToolCall& call : *calls) {
    const auto is_known = [&] { return std::ranges::find(functions, call.name) != functions.end(); };
    constexpr std::string_view suffix = ".call";
    if (!is_known() && call.name.ends_with(suffix)) call.name.resize(call.name.size() - suffix.size());
    if (!is_known()) return std::nullopt;
  }
  return calls;
}

std::optional<std::string> read_python_literal(std::string_view text) {
  return is_utf8(text) ? PythonReader(text).whole_literal() : std::nullopt;
}

bool begins_object(std::string_view json) {
  if (!json.starts_with('{')) return false;
  const std::size_t first = json.find_first_not_of(blanks, 1);
  return first != std::string_view::npos && (json[first] == '"' || json[first] == '}');
}

std::optional<CallHead> read_call_head(std::string_view json, std::span<const std::string> functions) {
  std::string_view rest = json;
  const auto take = [&](char c) {
    rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
    if (!rest.starts_with(c)) return false;
    rest.remove_prefix(1);
    return true;
  };
  const auto take_string = [&]() -> std::optional<std::string> {
    if (!take('"')) return std::nullopt;
    // Names and ids need no escapes.
    const auto is_other = [](char c) { return c == '"' || c == '\\' || (c >= 0 && c < ' '); };
    const auto end = static_cast<std::size_t>(std::ranges::find_if(rest, is_other) - rest.begin());
    if (end == rest.size() || rest[end] != '"') return std::nullopt;
    std::string text(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    return text;
  };
  CallHead head;
  if (!take('{')) return std::nullopt;
  for (;;) {
    const std::optional<std::string> key = take_string();
    if (!key || !take(':')) return std::nullopt;
    if (*key == "arguments" || *key == "parameters") break;
    const bool is_name = *key == "name" || *key == "tool_name";
    if (!is_name && *key != "id" && *key != "type") return std::nullopt;
    std::optional<std::string> value = take_string();
    if (!value || !take(',')) return std::nullopt;
    if (is_name) {
      head.name = *std::move(value);
    } else if (*key == "id") {
      head.id = *std::move(value);
    }
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
  if (std::ranges::find(functions, head.name) == functions.end() || !begins_object(rest)) return std::nullopt;
  head.arguments = json.size() - rest.size();
  return head;
}

bool may_be_call(std::string_view json, std::span<const std::string> functions) {
  constexpr std::array<std::string_view, 7> members{"name", "arguments", "parameters", "function",
                                                    "id",   "type",      "tool_name"};
  // A string that is there as a whole, without escapes; those of a call need none.
  const auto take_string = [&]() -> std::optional<std::string_view> {
    json = json.substr(std::min(json.find_first_not_of(blanks), json.size()));
    if (!json.starts_with('"')) return std::nullopt;
    const std::size_t end = json.find_first_of("\"\\", 1);
    if (end == std::string_view::npos || json[end] == '\\') return std::nullopt;
    const std::string_view text = json.substr(1, end - 1);
    json.remove_prefix(end + 1);
    return text;
  };
  constexpr std::size_t max_bytes = 512;
  json = json.substr(0, max_bytes);
  json.remove_prefix(std::min(json.size(), json.find('{') + 1));
  const std::optional<std::string_view> key = take_string();
  if (!key) return true;
  if (std::ranges::find(members, *key) == members.end()) return false;
  json = json.substr(std::min(json.find_first_not_of(" \t\r\n:"), json.size()));
  const std::optional<std::string_view> value = *key == "name" ? take_string() : std::nullopt;
  return !value || std::ranges::find(functions, *value) != functions.end();
}

}  // namespace gpux::generation
