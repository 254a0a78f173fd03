#include "generation/json_extent.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace gpux::generation {
namespace {

// Recursive schemas allow any depth.
constexpr std::size_t max_depth = 1024;
// What numbers, true, false and null are made of, and what is between values.
constexpr std::string_view plain = "0123456789+-.eEtrufalsn,: \t\r\n";

/// Takes the tokens of JSON off a text.
class JsonTokens {
 public:
  explicit JsonTokens(std::string_view text) : rest_(text) {}

  [[nodiscard]] char next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }

  [[nodiscard]] bool is_at_end() { return next() == '\0' && rest_.empty(); }

  void skip() { rest_.remove_prefix(1); }

  // A string, a number or a word.
  bool take_value() {
    if (next() == '"') return take_string();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (rest_.starts_with(word)) return drop(word.size());
    }
    return take_number();
  }

  bool take_string() {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    return end < rest_.size() && nlohmann::json::accept(rest_.substr(0, end + 1)) && drop(end + 1);
  }

 private:
  bool drop(std::size_t count) {
    rest_.remove_prefix(count);
    return true;
  }

  bool take_digits() {
    const std::size_t count = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    return count != 0 && drop(count);
  }

  bool take_any(std::string_view characters) {
    return !rest_.empty() && characters.find(rest_.front()) != std::string_view::npos && drop(1);
  }

  bool take_number() {
    (void)take_any("-");
    if (!take_any("0") && !take_digits()) return false;
    if (take_any(".") && !take_digits()) return false;
    if (!take_any("eE")) return true;
    (void)take_any("+-");
    return take_digits();
  }

  std::string_view rest_;
};

}  // namespace

bool is_json(std::string_view text) {
  JsonTokens tokens(text);
  std::string open;  // the brackets that close what is open
  for (;;) {
    // A value, or the first key and its value.
    const char next = tokens.next();
    const bool opens = next == '{' || next == '[';
    if (opens) {
      open += next == '{' ? '}' : ']';
      tokens.skip();
    } else if (!tokens.take_value()) {
      return false;
    }
    const bool is_closed = !opens || tokens.next() == open.back();
    if (opens && is_closed) {
      tokens.skip();
      open.pop_back();
    }
    while (is_closed && !open.empty() && tokens.next() == open.back()) {
      tokens.skip();
      open.pop_back();
    }
    if (open.empty()) return tokens.is_at_end();
    if (is_closed) {
      if (tokens.next() != ',') return false;
      tokens.skip();
    }
    if (open.back() == ']') continue;
    if (tokens.next() != '"' || !tokens.take_string() || tokens.next() != ':') return false;
    tokens.skip();
  }
}

bool JsonExtent::take(char c) {
  if (is_in_string_) {
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (c == '\\') {
      is_escaped_ = true;
    } else if (c == '"') {
      is_in_string_ = false;
    }
    return true;
  }
  switch (c) {
    case '"':
      is_in_string_ = true;
      return true;
    case '{':
    case '[':
      open_ += c == '{' ? '}' : ']';
      return open_.size() <= max_depth;
    case '}':
    case ']':
      if (open_.back() != c) return false;
      open_.pop_back();
      return true;
    default:
      return plain.find(c) != std::string_view::npos;
  }
}

JsonExtent::State JsonExtent::read(std::string_view text) {
  while (size_ < text.size()) {
    if (!take(text[size_])) return State::broken;
    ++size_;
    if (open_.empty()) return State::complete;
  }
  return State::open;
}

}  // namespace gpux::generation
