#pragma once

#include <optional>
#include <string>
#include <string_view>

/// The parts of a header's value such as 'form-data; name="image"'.
namespace gpux::http {

/// The text without leading and trailing spaces and tabs.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// The first word: "form-data".
[[nodiscard]] std::string_view kind_of(std::string_view value) noexcept;

/// A parameter: "image" for `name`, whose letters may be of either case. Empty where it is not there, or its quotes are
/// not closed.
[[nodiscard]] std::optional<std::string> parameter_of(std::string_view value, std::string_view name);

}  // namespace gpux::http
