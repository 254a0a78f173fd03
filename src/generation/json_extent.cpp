#include "generation/json_extent.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace gpux::generation {
namespace {

// Recursive schemas allow any depth.
constexpr std::size_t max_depth = 1024;
constexpr std::string_view white_space = " \t\r\n";
// What numbers, true, false and null are made of.
constexpr std::string_view of_words = "0123456789+-.eEtrufalsn";

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

bool JsonExtent::begin_value(char c) {
  if (c == '{' || c == '[') {
    open_ += c == '{' ? '}' : ']';
    next_ = c == '{' ? Next::key_or_end : Next::value_or_end;
    return open_.size() <= max_depth;
  }
  if (open_.empty()) return false;
  if (c == '"') {
    is_key_ = false;
    next_ = Next::string;
    return true;
  }
  next_ = Next::word;
  word_ = c;
  return of_words.find(c) != std::string_view::npos;
}

bool JsonExtent::close(char c) {
  if (open_.back() != c) return false;
  open_.pop_back();
  next_ = Next::separator;
  return true;
}

bool JsonExtent::take_hex(char c) {
  constexpr std::string_view hex = "0123456789abcdef";
  constexpr std::uint32_t first_high = 0xD800, first_low = 0xDC00, behind_low = 0xE000;
  const std::size_t digit = hex.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
  if (digit == std::string_view::npos) return false;
  code_ = code_ << 4U | static_cast<std::uint32_t>(digit);
  if (++digits_ < 4) return true;
  const bool is_high = code_ >= first_high && code_ < first_low, is_low = code_ >= first_low && code_ < behind_low;
  if (is_low != has_high_) return false;
  has_high_ = is_high;
  next_ = Next::string;
  return true;
}

bool JsonExtent::take_escape(char c) {
  if (c == 'u') {
    code_ = 0;
    digits_ = 0;
    next_ = Next::unicode;
    return true;
  }
  next_ = Next::string;
  return !has_high_ && std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
}

bool JsonExtent::take_in_string(char c) {
  constexpr unsigned char first_printable = 0x20;
  if (c == '\\') {
    next_ = Next::escape;
    return true;
  }
  // The second half of a pair is missing.
  if (has_high_) return false;
  if (c == '"') next_ = is_key_ ? Next::colon : Next::separator;
  return static_cast<unsigned char>(c) >= first_printable;
}

bool JsonExtent::take(char c) {
  switch (next_) {
    case Next::string:
      return take_in_string(c);
    case Next::escape:
      return take_escape(c);
    case Next::unicode:
      return take_hex(c);
    case Next::word:
      if (of_words.find(c) != std::string_view::npos) {
        word_ += c;
        return true;
      }
      if (!is_json(word_)) return false;
      next_ = Next::separator;
      break;
    default:
      break;
  }
  if (white_space.find(c) != std::string_view::npos) return true;
  switch (next_) {
    case Next::value_or_end:
      return c == ']' ? close(c) : begin_value(c);
    case Next::value:
      return begin_value(c);
    case Next::key_or_end:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Next::key:
      is_key_ = true;
      next_ = Next::string;
      return c == '"';
    case Next::colon:
      next_ = Next::value;
      return c == ':';
    default:
      break;
  }
  if (c != ',') return close(c);
  next_ = open_.back() == '}' ? Next::key : Next::value;
  return true;
}

JsonExtent::State JsonExtent::read(std::string_view text) {
  while (state_ == State::open && size_ < text.size()) {
    if (!take(text[size_])) {
      state_ = State::broken;
      break;
    }
    ++size_;
    const bool goes_on = next_ == Next::word || next_ == Next::escape || next_ == Next::unicode || has_high_;
    if (!goes_on) certain_ = size_;
    if (open_.empty()) state_ = State::complete;
  }
  return state_;
}

}  // namespace gpux::generation
