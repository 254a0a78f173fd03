#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux {

/// The candidate that `word` was probably meant to be, or empty where none is near.
std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

/// Joins words: "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

/// The parts between separators, blanks around them removed; empty parts are kept.
std::vector<std::string> split(std::string_view text, char separator);

/// ASCII letters in lower case.
std::string lower(std::string_view text);

/// ASCII letters in upper case.
std::string upper(std::string_view text);

/// An address whose query, which may hold a secret, is left out: "https://host/a?…".
std::string without_query(std::string_view address);

}  // namespace gpux
