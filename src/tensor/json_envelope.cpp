#include "tensor/json_envelope.h"

#include <algorithm>
#include <bitset>
#include <set>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/json_text.h"

namespace gpux {
namespace {

bool is_bracket_or_quote(char character) noexcept {
  const auto folded = static_cast<char>(character | 0x20);  // '[' and ']' become '{' and '}'
  return folded == '{' || folded == '}' || character == '"';
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : begin_(text.data()), cursor_(text) { cursor_.skip_blanks(); }

  std::vector<JsonInput> object() {
    expect('{', "an object");
    std::vector<JsonInput> members;
    std::set<std::string, std::less<>> names;  // of many; a few are compared one by one
    constexpr std::size_t few = 16;
    constexpr std::size_t max_members = 65'536;
    const auto is_new = [&](const std::string& name) {
      if (members.size() > few) {
        if (names.empty()) {
          for (const JsonInput& member : members) names.insert(member.name);
          return names.size() == members.size();
        }
        return names.insert(name).second;
      }
      return std::none_of(members.begin(), std::prev(members.end()),
                          [&](const JsonInput& member) { return member.name == name; });
    };
    members.reserve(4);
    cursor_.skip_blanks();
    if (!cursor_.take('}')) {
      do {
        cursor_.skip_blanks();
        members.push_back(member());
        if (members.size() > max_members) refuse(fmt::format("the object has more than {} members", max_members));
        if (!is_new(members.back().name)) {
          refuse(fmt::format("the object has the name {} twice", json_excerpt('"' + members.back().name + '"')));
        }
      } while (goes_on('}'));
    }
    expect_end();
    return members;
  }

  template <typename Visit>
  void array(const Visit& visit) {
    expect('[', "a list");
    cursor_.skip_blanks();
    if (!cursor_.take(']')) {
      do {
        cursor_.skip_blanks();
        if (!visit(value())) return;
      } while (goes_on(']'));
    }
    expect_end();
  }

  std::vector<std::string_view> lines() {
    std::vector<std::string_view> values;
    while (!cursor_.done()) {
      values.push_back(value());
      const char* const behind = cursor_.at;
      cursor_.skip_blanks();
      if (!cursor_.done() && std::find(behind, cursor_.at, '\n') == cursor_.at) {
        refuse(fmt::format("{} found where the line should end", json_excerpt(cursor_.rest())));
      }
    }
    return values;
  }

 private:
  [[noreturn]] void refuse(std::string_view message) const {
    const std::string_view before(begin_, static_cast<std::size_t>(cursor_.at - begin_));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    throw Error(ErrorCode::invalid_input, fmt::format("JSON, line {}, column {}: {}", line, column, message));
  }

  [[noreturn]] void refuse_here(std::string_view expected) const {
    refuse(fmt::format("{} found where {} was expected", json_excerpt(cursor_.rest()), expected));
  }

  void expect(char character, std::string_view what) {
    if (!cursor_.take(character)) refuse_here(what);
  }

  void expect_end() {
    cursor_.skip_blanks();
    if (!cursor_.done()) refuse_here("the end");
  }

  bool goes_on(char closing) {
    cursor_.skip_blanks();
    if (cursor_.take(',')) return true;
    if (!cursor_.take(closing)) refuse_here(fmt::format("',' or '{}'", closing));
    return false;
  }

  JsonInput member() {
    JsonInput member;
    if (cursor_.peek() != '"') refuse_here("a name in quotes");
    if (const char* failure = read_json_string(cursor_, member.name)) refuse(failure);
    cursor_.skip_blanks();
    expect(':', "':'");
    cursor_.skip_blanks();
    member.raw = value();
    return member;
  }

  std::string_view value() {
    const char* const first = cursor_.at;
    switch (cursor_.peek()) {
      case '"':
        pass_string();
        break;
      case '[':
      case '{':
        pass_brackets();
        break;
      default:
        while (!ends_json_word(cursor_.peek())) ++cursor_.at;
        if (cursor_.at == first) refuse_here("a value");
    }
    return {first, static_cast<std::size_t>(cursor_.at - first)};
  }

  void pass_string() {
    ++cursor_.at;
    while (!cursor_.done()) {
      const char character = *cursor_.at++;
      if (character == '"') return;
      if (character == '\\' && !cursor_.done()) ++cursor_.at;
    }
    refuse("the string has no end");
  }

  void pass_brackets() {
    // Of a value that this does not read: a schema of 128 levels, and what is around it.
    constexpr std::size_t max_depth = 136;
    std::bitset<max_depth> is_list;
    std::size_t depth = 0;
    do {
      pass_to_bracket_or_quote();
      const char character = cursor_.peek();
      if (character == '"') {
        pass_string();
      } else if (character == '[' || character == '{') {
        if (depth == max_depth) refuse(fmt::format("lists and objects nest deeper than {}", max_depth));
        is_list[depth++] = character == '[';
        ++cursor_.at;
      } else if (character == (is_list[depth - 1] ? ']' : '}')) {
        --depth;
        ++cursor_.at;
      } else {
        refuse_here(is_list[depth - 1] ? "']'" : "'}'");
      }
    } while (depth != 0);
  }

  // Long stretches of numbers hold neither: looked at a block at a time, in a form that compilers vectorize.
  void pass_to_bracket_or_quote() {
    constexpr std::ptrdiff_t block = 64;
    const char* at = cursor_.at;
    while (cursor_.end - at >= block) {
      unsigned char others = 0xff;
      for (std::ptrdiff_t i = 0; i < block; ++i) {
        const auto character = static_cast<unsigned char>(at[i]);
        const auto folded = static_cast<unsigned char>(character | 0x20U);
        others &= static_cast<unsigned char>(folded == '{' || folded == '}' || character == '"' ? 0x00 : 0xff);
      }
      if (others == 0) break;
      at += block;
    }
    cursor_.at = at;
    cursor_.at = std::find_if(cursor_.at, cursor_.end, is_bracket_or_quote);
  }

  const char* begin_;
  JsonCursor cursor_;
};

char first_character(std::string_view text) noexcept {
  JsonCursor cursor(text);
  cursor.skip_blanks();
  return cursor.peek();
}

}  // namespace

std::vector<JsonInput> split_object(std::string_view text) {
  return Splitter(text).object();
}

std::string_view member_text(std::string_view object, std::string_view name) {
  for (const JsonInput& member : split_object(object)) {
    if (member.name == name) return member.raw == "null" ? std::string_view() : member.raw;
  }
  return {};
}

std::vector<std::string_view> split_array(std::string_view text) {
  std::vector<std::string_view> elements;
  Splitter(text).array([&](std::string_view element) {
    elements.push_back(element);
    return true;
  });
  return elements;
}

void visit_array(std::string_view text, const std::function<bool(std::string_view element)>& visit) {
  Splitter(text).array(visit);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  return Splitter(text).lines();
}

bool is_array(std::string_view text) noexcept {
  return first_character(text) == '[';
}

bool is_object(std::string_view text) noexcept {
  return first_character(text) == '{';
}

std::uint64_t count_values_at_most(std::string_view text) noexcept {
  // Blocks whose count fits a byte, in a form that compilers vectorize: the text may be an image of megabytes.
  constexpr std::size_t block = 128;
  const auto count_in = [](const char* at, std::size_t size) {
    std::uint8_t count = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const auto folded = static_cast<char>(at[i] | 0x20);  // '[' becomes '{'
      count = static_cast<std::uint8_t>(count + (folded == '{' || at[i] == ',' ? 1 : 0));
    }
    return std::uint64_t{count};
  };
  std::uint64_t count = 1;
  for (; text.size() >= block; text.remove_prefix(block)) count += count_in(text.data(), block);
  return count + count_in(text.data(), text.size());
}

}  // namespace gpux
