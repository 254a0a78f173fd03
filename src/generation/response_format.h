#pragma once

#include <string_view>

#include "gpux/output_constraint.h"

/// The form of an answer, as requests to other servers name it. JSON is read as text, because the order of a schema's
/// properties is the order in which a model writes them. Errors invalid_input name the member that is wrong. Of
/// schemas, expressions and grammars only the type is checked: text::TokenConstraint says whether they can be used.
namespace gpux::generation {

/// The value of OpenAI's "response_format": {"type": "text"}, {"type": "json_object"}, or {"type": "json_schema",
/// "json_schema": {"name", "description", "schema", "strict"}}, of which only "schema" has to be there. "strict" may be
/// true or false: the schema always holds in full. null: none.
OutputConstraint read_response_format(std::string_view value);

/// The body of a request to /v1/completions or /v1/chat/completions: of its members "response_format" and vLLM's
/// "guided_json" (a schema or its text), "guided_regex", "guided_choice" (a list of texts; the answer is one of them)
/// and "guided_grammar", or "structured_outputs" with "json", "regex", "choice", "grammar" or "json_object", one at
/// most may be there and not null. Others are not looked at.
OutputConstraint read_openai_constraint(std::string_view body);

/// The body of a request to Ollama's /api/generate or /api/chat: its member "format", which is "json" or a schema. None
/// if it is not there, null or "".
OutputConstraint read_ollama_constraint(std::string_view body);

}  // namespace gpux::generation
