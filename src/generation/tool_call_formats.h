#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "generation/answer_format.h"

/// The forms in which families of models write calls of tools, as data: what a template has that asks for them, how an
/// answer with them is read, and how a call is written that a constraint forces. Sources: the chat templates of the
/// models, and vLLM's tool parsers.
namespace gpux::generation {

/// How the calls behind a marker are written.
enum class CallBody : std::uint8_t {
  json,        ///< {"name": …, "arguments": …}, or a list of such
  named_json,  ///< the same; or name[ARGS]{…}, name[CALL_ID]id[ARGS]{…}
  python,      ///< name(key=value), lines or a list of them; or JSON
  named,       ///< name SEPARATOR {…}; or kind SEPARATOR name, and {…} in a block ```json
  elements,    ///< as CallElements says; or JSON
};

/// Markers around calls.
struct CallBlock {
  std::string_view begin;
  std::string_view end;  ///< empty: the call ends where it is whole
  CallBody body = CallBody::json;
  bool is_part = false;  ///< the markers belong to what is read
};

/// How a call is written in elements: FUNCTION name NAME_END, and for each parameter PARAMETER key KEY_END VALUE value
/// VALUE_END, and FUNCTION_END. White space may be between them; one newline at each end of a value is no part of it.
struct CallElements {
  std::string_view function, name_end;  ///< name_end empty: the name ends at white space or at the next element
  std::string_view parameter, key_end;
  std::string_view value, value_end;
  std::string_view function_end;
};

/// How a call is written that is forced: BEGIN name ARGUMENTS {…} END. A '#' stands for a number.
struct CallWriting {
  std::string_view section_begin;  ///< before the first call
  std::string_view begin, arguments, end;
  std::string_view separator;    ///< between two calls
  std::string_view section_end;  ///< behind the last one
  bool allows_several = true;
};

/// A form of calls.
struct ToolCallFormat {
  ToolCallStyle style;
  std::string_view name;
  std::span<const std::string_view> template_marks;  ///< a template that has all of them asks for this form
  std::span<const CallBlock> blocks;
  std::span<const std::string_view> around = {};  ///< markers around calls, which mean nothing alone
  std::span<const std::string_view> within = {};  ///< other markers within calls
  bool begins_with_json = false;                  ///< an answer that is JSON is a call, too
  std::string_view separator = {};                ///< of CallBody::named
  CallElements elements = {};                     ///< of CallBody::elements
  CallWriting writing = {};
};

/// The format of the style.
const ToolCallFormat& tool_call_format(ToolCallStyle style) noexcept;

/// All of them, in the order in which a template is compared with their marks.
std::span<const ToolCallFormat> tool_call_formats() noexcept;

}  // namespace gpux::generation
