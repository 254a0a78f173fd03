#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpux {

/// A member of a JSON object whose value is still text.
struct JsonInput {
  std::string name;      ///< unescaped
  std::string_view raw;  ///< the value, a view of the text that was split, blanks around it removed
};

/// These take a text apart without reading its values: a value's brackets and quotes are matched, the rest is left to
/// who reads it (read_json_value). The work is linear, nothing recurses, and lists and objects deeper than 136 are
/// refused. The bare words NaN, Infinity and -Infinity pass. All throw Error invalid_input with line and column,
/// also where anything but blanks is left over.

/// The members of the object, in order: at most 65536. Names must differ and be UTF-8.
std::vector<JsonInput> split_object(std::string_view text);

/// The value of a member of the object as it is written; empty where it is not there, or null.
std::string_view member_text(std::string_view object, std::string_view name);

/// Gives each element of the list to `visit` as it is met, until that returns false: what follows is not looked at
/// then.
void visit_array(std::string_view text, const std::function<bool(std::string_view element)>& visit);

/// The elements of the list.
std::vector<std::string_view> split_array(std::string_view text);

/// The values of a text that holds several, each beginning on a line of its own: JSON Lines, or one value over many
/// lines. Empty for a blank text.
std::vector<std::string_view> split_lines(std::string_view text);

/// Whether the text begins as a list, or an object, would.
[[nodiscard]] bool is_array(std::string_view text) noexcept;
[[nodiscard]] bool is_object(std::string_view text) noexcept;

/// At most how many values the text has: its commas and opening brackets, those within strings too, and one.
[[nodiscard]] std::uint64_t count_values_at_most(std::string_view text) noexcept;

}  // namespace gpux
