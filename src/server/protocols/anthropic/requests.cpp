#include "server/protocols/anthropic/requests.h"

#include <array>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "server/protocols/anthropic/messages.h"
#include "server/protocols/anthropic/operations.h"
#include "server/protocols/anthropic/tools.h"
#include "server/protocols/generation_fields.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/texts.h"
#include "tensor/json_envelope.h"

namespace gpux::server::anthropic {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr auto conversation_table = std::to_array<Field>({
    {"model", text, optional, openapi::model_names},
    {"messages", other, required, messages_schema},
    {"system", other, optional, system_schema},
    {"tools", other, optional, tools_schema},
    {"tool_choice", object, optional, tool_choice_schema},
    {"thinking", object, optional, thinking_schema},
    {"output_config", object},
    {"context_management", object},
    refused_field("container", "there are none; accepted are tools, which the client calls"),
    refused_field("mcp_servers", "accepted are tools, which the client calls"),
    refused_field("output_format", "accepted is output_config, with a member format"),
    // Caches, places and records of Anthropic's own servers.
    ignored_field("cache_control"),
    ignored_field("speed"),
    ignored_field("user_profile_id"),
    ignored_field("workspace_id"),
    ignored_field("betas"),
});

constexpr auto answer_table = std::to_array<Field>({
    {"max_tokens", count, required},
    {"stream", flag},
    {"stop_sequences", other, optional, stop_schema},
    {"temperature", number, optional, [](const ServedList&) { return openapi::number_from(0, 100); }},
    {"top_p", number, optional, [](const ServedList&) { return openapi::share(); }},
    {"top_k", whole},
    ignored_field("metadata"),
    ignored_field("service_tier"),
    ignored_field("inference_geo"),
    ignored_field("diagnostics"),
});

constexpr std::array<std::string_view, 3> thinking_types{"enabled", "disabled", "adaptive"};
constexpr std::array<std::string_view, 2> displays{"summarized", "omitted"};

// The budget is a wish, as on Anthropic's servers: max_tokens holds.
constexpr std::array<Field, 3> thinking_table{{
    {"type", choice, required, nullptr, thinking_types},
    ignored_field("budget_tokens"),
    {"display", choice, optional, nullptr, displays},
}};

constexpr std::array<std::string_view, 5> efforts{"low", "medium", "high", "xhigh", "max"};
constexpr std::array effort_meanings{ReasoningEffort::low, ReasoningEffort::medium, ReasoningEffort::high,
                                     ReasoningEffort::xhigh, ReasoningEffort::xhigh};
constexpr std::array<Field, 2> output_table{{{"effort", choice, optional, nullptr, efforts}, {"format", other}}};

constexpr std::array<std::string_view, 1> format_types{"json_schema"};
constexpr std::array<Field, 2> format_table{{
    {"type", choice, required, nullptr, format_types},
    {"schema", other, required},
}};

constexpr std::array<Field, 1> management_table{{{"edits", other}}};

// Which thinking of earlier messages a model sees, its chat template decides.
constexpr std::array<std::string_view, 1> edit_types{"clear_thinking_20251015"};
constexpr std::array<Field, 2> edit_table{{{"type", choice, required, nullptr, edit_types}, ignored_field("keep")}};

void read_thinking(Members& members, MessageRequest& read) {
  constexpr std::array meanings{Thinking::enabled, Thinking::disabled, Thinking::adaptive};
  const RequestJson* asked = members.find("thinking");
  if (asked == nullptr) return;
  Members thinking = members.inside(*asked, "thinking", thinking_table);
  if (const auto type = thinking.choice("type")) read.thinking = meanings.at(*type);
  read.shows_thinking = thinking.choice("display").value_or(0) == 0;
  thinking.finish();
}

void read_output(Members& members, std::string_view body, MessageRequest& read) {
  const RequestJson* asked = members.find("output_config");
  if (asked == nullptr) return;
  Members output = members.inside(*asked, "output_config", output_table);
  if (const auto effort = output.choice("effort")) read.effort = effort_meanings.at(*effort);
  const RequestJson* value = output.find("format");
  output.finish();
  if (value == nullptr) return;
  Members format = output.inside(*value, "output_config.format", format_table);
  format.ignore("type");
  const RequestJson& schema = format.must_find("schema");
  format.finish();
  if (!schema.is_object() && !schema.is_boolean()) {
    refuse_member("output_config.format.schema", "is no JSON schema");
  }
  read.form_member = "output_config.format";
  // As it is written: the order of its properties is that of the answer.
  read.chat.settings.constraint = {
      OutputConstraint::Kind::json_schema,
      std::string(member_text(member_text(member_text(body, "output_config"), "format"), "schema"))};
}

void read_context_management(Members& members) {
  const RequestJson* asked = members.find("context_management");
  if (asked == nullptr) return;
  Members management = members.inside(*asked, "context_management", management_table);
  const RequestJson* edits = management.find("edits");
  management.finish();
  if (edits == nullptr) return;
  if (!edits->is_array()) refuse_member("context_management.edits", "is no list");
  for (std::size_t i = 0; i < edits->size(); ++i) {
    Members edit = management.inside((*edits)[i], fmt::format("context_management.edits[{}]", i), edit_table);
    (void)edit.choice("type");
    edit.finish();
  }
}

void read_stops(Members& members, GenerationSettings& settings) {
  const RequestJson* stops = members.find("stop_sequences");
  if (stops == nullptr) return;
  if (!stops->is_array()) refuse_member("stop_sequences", "is no list of texts");
  for (const RequestJson& stop : *stops) {
    if (!stop.is_string()) refuse_member("stop_sequences", "has a value that is no text");
    settings.stop.push_back(stop.get<std::string>());
  }
}

void read_answer_settings(Members& members, MessageRequest& read) {
  GenerationSettings& settings = read.chat.settings;
  settings.max_tokens = members.count("max_tokens");
  read.is_streamed = members.flag("stream", false);
  read_stops(members, settings);
  if (const auto number = members.number("temperature")) settings.temperature = static_cast<float>(*number);
  if (const auto number = members.number("top_p")) settings.top_p = static_cast<float>(*number);
  if (const auto number = members.whole("top_k")) settings.top_k = static_cast<std::uint32_t>(*number);
  check_settings(settings, {.prompt = {}, .form = {}, .settings = setting_names()});
}

MessageRequest read_request(std::string_view body, const BodyReading& reading, std::span<const Field> fields,
                            bool is_answered) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", fields, reading.rules);
  MessageRequest read;
  read.model = members.text("model");
  if (is_answered) read_answer_settings(members, read);
  read.chat.messages = read_conversation(members, body);
  read.chat.options.continues_last_message = continues_last_message(read.chat.messages);
  read_tools(members, body, read.chat.options);
  read_thinking(members, read);
  read_output(members, body, read);
  read_context_management(members);
  if (read.form_member.empty() && read.chat.options.tool_choice == ToolChoice::required) read.form_member = "tools";
  members.finish();
  return read;
}

}  // namespace

std::span<const Field> message_fields() {
  static const std::vector<Field> fields = joined({conversation_table, answer_table});
  return fields;
}

std::span<const Field> token_count_fields() {
  return conversation_table;
}

std::span<const std::pair<std::string_view, std::string_view>> setting_names() noexcept {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 1> names{{{"stop", "stop_sequences"}}};
  return names;
}

MessageRequest read_message_request(std::string_view body, const BodyReading& reading) {
  return read_request(body, reading, message_fields(), true);
}

MessageRequest read_token_count_request(std::string_view body, const BodyReading& reading) {
  return read_request(body, reading, token_count_fields(), false);
}

}  // namespace gpux::server::anthropic
