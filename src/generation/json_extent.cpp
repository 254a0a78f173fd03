#include "generation/json_extent.h"

namespace gpux::generation {
namespace {

constexpr std::size_t max_depth = 64;
// What numbers, true, false and null are made of, and what is between values.
constexpr std::string_view plain = "0123456789+-.eEtrufalsn,: \t\r\n";

}  // namespace

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
