#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"

namespace gpux::generation {

/// The names of efforts, as requests have them: "none" to "xhigh".
inline constexpr std::array<std::string_view, 6> effort_names{"none", "minimal", "low", "medium", "high", "xhigh"};

/// The effort of this name; empty for any other text.
[[nodiscard]] std::optional<ReasoningEffort> effort_named(std::string_view name) noexcept;

/// A variable of a chat template.
struct TemplateVariable {
  std::string name;
  std::string value;  ///< JSON

  bool operator==(const TemplateVariable&) const = default;
};

/// Whether the template reads a variable of this name: it is in a tag or an expression, neither as a text nor as a
/// member of something else, and not only to be set. Pure.
[[nodiscard]] bool reads_variable(std::string_view template_text, std::string_view name);

/// What makes the model of this template think so much: `enable_thinking` and `thinking` (true but for none and
/// minimal) and `reasoning_effort` (the name of the effort), as far as the template reads them. Without any of them
/// nothing is to be done where the model never thinks and `none` is asked for, or where it always does and `usual` is.
/// Pure. Error invalid_input: the template knows no such effort; the message names the setting "reasoning" and what is
/// accepted.
[[nodiscard]] std::vector<TemplateVariable> reasoning_variables(ReasoningEffort effort, std::string_view template_text);

}  // namespace gpux::generation
