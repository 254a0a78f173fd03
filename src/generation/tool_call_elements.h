#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generation/tool_call_formats.h"
#include "gpux/chat.h"

namespace gpux::generation {

/// Functions that may be called.
struct CallableFunctions {
  std::span<const std::string> names;
  std::span<const std::string> parameters;  ///< the JSON schema of each function's arguments; may be fewer, or empty
};

/// The calls that a model wrote as elements. A value is JSON of a type that the function's schema has for its key: a
/// text where that is a string, or where the value is of no such type. Empty where the text is anything else, or calls
/// an unknown function. Pure.
std::optional<std::vector<ToolCall>> read_element_calls(std::string_view text, const CallElements& elements,
                                                        const CallableFunctions& functions);

/// The call that a model wrote as name SEPARATOR {…}; the name may be functions.NAME:NUMBER, which is then the id of
/// the call. Also kind SEPARATOR name, and {…} in a block ```json. Empty as above. Pure.
std::optional<ToolCall> read_named_call(std::string_view text, std::string_view separator,
                                        std::span<const std::string> functions);

/// The name of a function as the model wrote it: without "functions." where only that makes it a known one. Empty:
/// it is unknown.
std::string known_function(std::string_view name, std::span<const std::string> functions);

}  // namespace gpux::generation
