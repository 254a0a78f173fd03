#include "server/protocols/responses/requests.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8_prefix.h"
#include "generation/reasoning_request.h"
#include "server/protocols/generation_fields.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/responses/operations.h"
#include "server/protocols/responses/tools.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server::responses {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::size_t max_log_probabilities = 20;
constexpr std::string_view log_probabilities = "message.output_text.logprobs";

// The others add what answers here have not: results of OpenAI's own tools, and encrypted reasoning, which is in clear
// text here.
constexpr std::array<std::string_view, 8> includable{log_probabilities,
                                                     "reasoning.encrypted_content",
                                                     "file_search_call.results",
                                                     "web_search_call.results",
                                                     "web_search_call.action.sources",
                                                     "message.input_image.image_url",
                                                     "computer_call_output.output.image_url",
                                                     "code_interpreter_call.outputs"};

constexpr std::array<std::string_view, 1> truncations{"disabled"};
constexpr std::array<std::string_view, 3> tool_choices{"none", "auto", "required"};

// Of requests whose tokens are counted alone, too.
constexpr std::array<Field, 11> conversation_table{{
    {"model", text, optional, openapi::model_names},
    {"input", other, required, input_schema},
    {"instructions", text},
    {"previous_response_id", text},
    {"tools", other, optional, tools_schema},
    {"tool_choice", choice, optional, tool_choice_schema, tool_choices},
    {"parallel_tool_calls", flag},
    {"text", object},
    {"reasoning", object},
    {"truncation", choice, optional, nullptr, truncations},
    refused_field("conversation", "accepted is previous_response_id"),
}};

constexpr auto answer_table = std::to_array<Field>({
    {"max_output_tokens", count},
    {"include", texts},
    {"top_logprobs", whole, optional, nullptr, {}, max_log_probabilities},
    {"metadata", object},
    {"store", flag},
    {"stream", flag},
    {"stream_options", object},
    refused_field("background", "responses are generated while the client waits; accepted: false", "false"),
    refused_field("prompt", "prompts are not stored here; accepted are instructions and input"),
    refused_field("context_management", "nothing is left out of a conversation"),
    refused_field("moderation", "accepted: null"),
    // Of OpenAI's own tools.
    ignored_field("max_tool_calls"),
    ignored_field("user"),
    ignored_field("service_tier"),
    ignored_field("safety_identifier"),
    ignored_field("prompt_cache_key"),
    ignored_field("prompt_cache_retention"),
    ignored_field("prompt_cache_options"),
    ignored_field("client_metadata"),
});

constexpr std::array<Field, 2> text_table{{{"format", other}, ignored_field("verbosity")}};

constexpr std::array<std::string_view, 3> format_types{"text", "json_object", "json_schema"};
constexpr std::array<Field, 5> format_table{{
    {"type", choice, required, nullptr, format_types},
    {"name", text},
    {"description", text},
    {"schema", other},
    {"strict", flag},  // the schema always holds in full
}};

// The reasoning itself is answered, and no summary of it.
constexpr std::array<Field, 5> reasoning_table{{
    {"effort", choice, optional, nullptr, generation::effort_names},
    ignored_field("summary"),
    ignored_field("generate_summary"),
    refused_field("mode", "accepted: standard", R"("standard")"),
    refused_field("context", "the chat template decides which reasoning the model sees; accepted: auto", R"("auto")"),
}};

constexpr std::array<Field, 1> stream_table{{ignored_field("include_obfuscation")}};

void read_format(Members& members, std::string_view body, ResponseRequest& read) {
  const RequestJson* asked = members.find("text");
  if (asked == nullptr) return;
  Members settings = members.inside(*asked, "text", text_table);
  const RequestJson* value = settings.find("format");
  settings.finish();
  if (value == nullptr) return;
  Members format = settings.inside(*value, "text.format", format_table);
  const std::string type(format_types.at(format.choice("type").value_or(0)));
  for (const char* name : {"name", "description"}) format.ignore(name);
  format.ignore("strict");
  const RequestJson* schema = format.find("schema");
  format.finish();
  OutputConstraint& constraint = read.chat.settings.constraint;
  if (type == "text") return;
  read.form_member = "text.format";
  constraint.kind = OutputConstraint::Kind::json_object;
  if (type == "json_object") return;
  if (schema == nullptr) refuse_member("text.format.schema", "is missing", MemberProblem::missing);
  if (!schema->is_object() && !schema->is_boolean()) refuse_member("text.format.schema", "is no JSON schema");
  constraint.kind = OutputConstraint::Kind::json_schema;
  // As it is written: the order of its properties is that of the answer.
  constraint.text = member_text(member_text(member_text(body, "text"), "format"), "schema");
}

void read_reasoning(Members& members, ChatOptions& options) {
  const RequestJson* asked = members.find("reasoning");
  if (asked == nullptr) return;
  Members reasoning = members.inside(*asked, "reasoning", reasoning_table);
  if (const auto effort = reasoning.choice("effort")) {
    options.reasoning = generation::effort_named(generation::effort_names.at(*effort));
  }
  reasoning.finish();
}

void read_log_probabilities(Members& members, GenerationSettings& settings) {
  for (const std::string& one : members.texts("include")) {
    if (std::ranges::find(includable, one) == includable.end()) {
      refuse_member("include",
                    fmt::format("has '{}'; accepted: {}", utf8_prefix(one, 60), fmt::join(includable, ", ")));
    }
    if (one == log_probabilities) settings.log_probabilities = true;
  }
  settings.top_log_probabilities = static_cast<std::uint32_t>(members.whole("top_logprobs").value_or(0));
  if (settings.top_log_probabilities != 0) settings.log_probabilities = true;
}

void check_metadata(Members& members) {
  const RequestJson* metadata = members.find("metadata");
  if (metadata == nullptr) return;
  if (!metadata->is_object()) refuse_member("metadata", "is no object");
  for (const auto& [name, value] : metadata->items()) {
    if (!value.is_string()) refuse_member(fmt::format("metadata.{}", utf8_prefix(name, 40)), "is no text");
  }
}

void read_stream(Members& members, ResponseRequest& read) {
  read.is_streamed = members.flag("stream", false);
  const RequestJson* options = members.find("stream_options");
  if (options == nullptr) return;
  if (!read.is_streamed) refuse_member("stream_options", "is for answers with \"stream\": true");
  Members of_stream = members.inside(*options, "stream_options", stream_table);
  of_stream.finish();
}

void append_text(std::string& out, std::string_view name, const std::string& text) {
  out += fmt::format(R"(,"{}":)", name);
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

// Members as the request has them, or what holds where it has none.
std::string repeated_members(const ResponseRequest& read, std::string_view body) {
  struct Repeated {
    std::string_view name, otherwise;
  };

  static constexpr std::array<Repeated, 8> members{{
      {"max_output_tokens", "null"},
      {"metadata", "{}"},
      {"parallel_tool_calls", "true"},
      {"temperature", "null"},
      {"top_p", "null"},
      {"text", R"({"format":{"type":"text"}})"},
      {"tool_choice", R"("auto")"},
      {"tools", "[]"},
  }};
  const std::vector<JsonInput> written = split_object(body);
  std::string out;
  append_text(out, "instructions", read.instructions);
  append_text(out, "previous_response_id", read.previous_response_id);
  for (const auto& [name, otherwise] : members) {
    const auto found = std::ranges::find(written, name, &JsonInput::name);
    const bool is_there = found != written.end() && found->raw != "null";
    out += fmt::format(R"(,"{}":{})", name, is_there ? found->raw : otherwise);
  }
  // Between its values only: they would end a line of a stream.
  std::ranges::replace_if(
      out, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  const std::optional<ReasoningEffort>& effort = read.chat.options.reasoning;
  out += fmt::format(
      R"(,"top_logprobs":{},"truncation":"disabled","reasoning":{{"effort":{},"summary":null}})",
      read.chat.settings.top_log_probabilities,
      effort ? fmt::format("\"{}\"", generation::effort_names.at(static_cast<std::size_t>(*effort))) : "null");
  return out;
}

void read_answer_settings(Members& members, ResponseRequest& read) {
  GenerationSettings& settings = read.chat.settings;
  read_common_sampling(members, settings);
  settings.max_tokens = members.count("max_output_tokens");
  read_log_probabilities(members, settings);
  check_metadata(members);
  read.is_stored = members.flag("store", true);
  read_stream(members, read);
}

}  // namespace

std::span<const Field> response_fields() {
  static const std::vector<Field> fields = joined({conversation_table, common_sampling_fields(), answer_table});
  return fields;
}

std::span<const Field> token_count_fields() {
  static const std::vector<Field> fields = joined({conversation_table});
  return fields;
}

std::span<const std::pair<std::string_view, std::string_view>> setting_names() noexcept {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 1> names{
      {{"max_tokens", "max_output_tokens"}}};
  return names;
}

ResponseRequest read_response_request(std::string_view body, const BodyReading& reading,
                                      const std::shared_ptr<MemoryBudget>& memory, std::span<const Field> fields) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", fields, reading.rules);
  ResponseRequest read;
  const bool is_answered = fields.size() == response_fields().size();
  read.model = members.text("model");
  read.instructions = members.text("instructions");
  read.previous_response_id = members.text("previous_response_id");
  if (is_answered) read_answer_settings(members, read);
  read.input = read_items(members, is_answered && read.is_stored, memory);
  read_tool_choice(members, read_tools(members, body, read.chat.options), read.chat.options);
  read_format(members, body, read);
  if (read.form_member.empty() && read.chat.options.tool_choice == ToolChoice::required) read.form_member = "tools";
  read_reasoning(members, read.chat.options);
  (void)members.choice("truncation");
  members.finish();
  check_settings(read.chat.settings, {.prompt = {}, .form = {}, .settings = setting_names()});
  if (is_answered) read.repeated = repeated_members(read, body);
  return read;
}

}  // namespace gpux::server::responses
