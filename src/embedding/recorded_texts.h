#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpux::embedding {

/// Texts that a model's variants are compared on where nobody gives others: from a word to a paragraph, of many fields,
/// most of them in English. They never change within a release, so that figures made with them can be compared.
std::span<const std::string_view> recorded_texts() noexcept;

/// All of them, each on lines of its own.
std::string joined_recorded_texts();

}  // namespace gpux::embedding
