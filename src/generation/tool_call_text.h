#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"

namespace gpux::generation {

/// The calls that a model wrote as JSON: {"name": …, "arguments": …}, also with `parameters`, with the two in
/// "function", or an array of such. Arguments are an object, a text that holds one, or not there; they are kept as they
/// are written. Empty where the text is anything else, or calls a function that is not one of `functions`. Pure.
std::optional<std::vector<ToolCall>> read_json_calls(std::string_view json, std::span<const std::string> functions);

/// Whether the text is the beginning of a JSON object, with its first key or its end. Pure.
bool begins_object(std::string_view json);

/// The beginning of one call as JSON.
struct CallHead {
  std::string name, id;       ///< id: empty where the model gave none before the arguments
  std::size_t arguments = 0;  ///< where the object of the arguments begins
};

/// The beginning of {"name": …, "arguments": {…, also with `id`, `type` and `parameters`, as far as the text goes.
/// Empty where the arguments have not begun, are no object or come before the name, and where the function is not one
/// of `functions`. Pure.
std::optional<CallHead> read_call_head(std::string_view json, std::span<const std::string> functions);

/// The calls that a model wrote as Python: name(key=value, …), lines of them or a list, with literals as values, which
/// become JSON. `name.call(…)` calls `name`. Empty as above. Pure.
std::optional<std::vector<ToolCall>> read_python_calls(std::string_view text, std::span<const std::string> functions);

/// A literal of Python that is the whole text, as JSON. Empty: it is none. Pure.
std::optional<std::string> read_python_literal(std::string_view text);

/// Whether JSON without a marker, as far as it is there, may become a call of one of the functions: its first member is
/// one of a call, and a name that comes first is that of a function. Pure.
bool may_be_call(std::string_view json, std::span<const std::string> functions);

}  // namespace gpux::generation
