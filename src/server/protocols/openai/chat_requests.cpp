#include "server/protocols/openai/chat_requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "server/protocols/called_function.h"
#include "server/protocols/openai/operations.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/reasoning_fields.h"
#include "server/protocols/tool_requests.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using enum FieldKind;
using enum FieldUse;

// What changes no answer: notes of LiteLLM on the answers of other services, and hints for caches of prompts.
constexpr Field litellm_notes = ignored_field("provider_specific_fields"), cache_hint = ignored_field("cache_control");

constexpr std::array<std::string_view, 5> roles{"system", "developer", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 1> call_types{"function"};

// Parts of the types "refusal" and "thinking" have a member of that name instead of "text".
constexpr std::array<Field, 7> part_table{{
    {"type", text},
    {"text", text},
    {"refusal", text},
    {"thinking", text},
    ignored_field("signature"),
    litellm_notes,
    cache_hint,
}};

constexpr std::array<Field, 6> call_table{{
    {"id", text},
    {"type", choice, optional, nullptr, call_types},
    {"index", whole},  // as streams have it
    {"function", object, required},
    litellm_notes,
    cache_hint,
}};

constexpr std::array<Field, 4> called_table{
    {{"name", text, required}, {"arguments", other}, litellm_notes, cache_hint}};

constexpr std::array<Field, 5> message_table{{
    {"role", choice, required, nullptr, roles},
    {"content", other},
    {"name", text},
    litellm_notes,
    cache_hint,
}};

// With what answers have, and clients send back.
constexpr std::array<Field, 13> assistant_table{{
    {"prefix", flag},  // of Mistral and DeepSeek
    {"reasoning_content", text},
    {"reasoning", text},
    ignored_field("reasoning_details"),
    ignored_field("thinking_blocks"),
    refused_field("images", "models that generate text take no images here"),
    ignored_field("id"),
    ignored_field("status"),
    {"tool_calls", other},
    {"refusal", text},
    refused_field("audio", "accepted are texts"),
    refused_field("function_call", "accepted are tool_calls"),
    ignored_field("annotations"),
}};

constexpr std::array<Field, 1> tool_table{{{"tool_call_id", text}}};

constexpr std::array<Field, 1> messages_table{{{"messages", other, required, openai::messages_schema}}};

constexpr std::array<Field, 4> chat_table{{
    {"max_tokens", count},
    {"max_completion_tokens", count},
    {"logprobs", flag},
    {"top_logprobs", whole, optional, nullptr, {}, max_log_probabilities},
}};

constexpr std::array<Field, 1> tools_table{{{"tools", other, optional, openapi::tools}}};

// What would change the answer, by OpenAI, vLLM and others.
constexpr auto refused_table = std::to_array<Field>({
    refused_field("audio", "accepted are texts"),
    refused_field("web_search_options", "accepted are tools, which the client calls"),
    refused_field("plugins", "accepted are tools, which the client calls"),
    refused_field("functions", "accepted are tools"),
    refused_field("function_call", "accepted is tool_choice"),
    refused_field("documents", "accepted are messages"),
    refused_field("chat_template", "the model's own is used"),
});

constexpr std::array<Field, 6> template_table{{
    {"chat_template_kwargs", object},
    {"add_generation_prompt", flag},
    {"continue_final_message", flag},
    {"echo", flag, optional, openapi::only_false},
    {"add_special_tokens", flag, optional, openapi::only_false},
    {"modalities", texts, optional, openapi::only_text},
}};

// Several texts are lines of one, as vLLM joins them. What was thought goes to `reasoning`.
std::string read_parts(const RequestJson& parts, const std::string& place, MemberRules* rules, std::string& reasoning) {
  std::string text;
  bool is_first = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Members part(parts[i], fmt::format("{}[{}]", place, i), part_table, rules);
    const std::string type = part.text("type");
    if (type != "text" && type != "refusal" && type != "thinking") {
      refuse_member(part.name_of("type"),
                    fmt::format("is '{}'; accepted: text, refusal, thinking", utf8_prefix(type, 40)));
    }
    const std::string plain = part.text("text"), refusal = part.text("refusal"), thinking = part.text("thinking");
    part.finish();
    if (part.find(type) == nullptr) refuse_member(part.name_of(type), "is missing", MemberProblem::missing);
    if (type == "thinking") {
      reasoning += thinking;
      continue;
    }
    if (!std::exchange(is_first, false)) text += '\n';
    text += type == "text" ? plain : refusal;
  }
  return text;
}

std::string read_content(Members& message, std::string& reasoning) {
  const RequestJson* content = message.find("content");
  if (content == nullptr) return {};
  if (content->is_array()) return read_parts(*content, message.name_of("content"), message.rules(), reasoning);
  if (!content->is_string()) refuse_member(message.name_of("content"), "is neither a text nor a list");
  return content->get<std::string>();
}

// A text of JSON, or the object itself.
std::string read_arguments(Members& function) {
  const RequestJson* arguments = function.find("arguments");
  if (arguments == nullptr) return {};
  if (arguments->is_string()) return arguments->get<std::string>();
  if (!arguments->is_object()) refuse_member(function.name_of("arguments"), "is neither a text nor an object");
  return arguments->dump();
}

ToolCall read_tool_call(const RequestJson& value, const std::string& place, MemberRules* rules) {
  Members members(value, place, call_table, rules);
  ToolCall call;
  call.id = members.text("id");
  members.ignore("type");
  members.ignore("index");
  Members function = members.inside(members.must_find("function"), place + ".function", called_table);
  call.name = function.text("name");
  call.arguments = read_arguments(function);
  function.finish();
  members.finish();
  return call;
}

void read_tool_calls(Members& message, ChatMessage& read) {
  const RequestJson* calls = message.find("tool_calls");
  if (calls == nullptr) return;
  const std::string place = message.name_of("tool_calls");
  if (!calls->is_array()) refuse_member(place, "is no list");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    read.tool_calls.push_back(read_tool_call((*calls)[i], fmt::format("{}[{}]", place, i), message.rules()));
  }
}

void read_assistant(Members& message, ChatMessage& read, bool& is_continued) {
  is_continued = message.flag("prefix", false);
  for (const char* member : {"reasoning_content", "reasoning"}) {
    const std::string reasoning = message.text(member);
    if (read.reasoning.empty()) read.reasoning = reasoning;
  }
  read_tool_calls(message, read);
  // Whatever it is where there is content: clients send answers back as they got them.
  if (message.find("refusal") != nullptr && read.content.empty()) read.content = message.text("refusal");
}

// `is_continued`: the message says that it is the beginning of the answer.
ChatMessage read_message(const RequestJson& value, const std::string& place, const std::vector<ChatMessage>& earlier,
                         MemberRules* rules, bool& is_continued) {
  enum Role : std::size_t { system, developer, user, assistant, tool };

  Members message(value, place, message_table, rules);
  const std::size_t role = message.choice("role").value_or(user);
  ChatMessage read;
  // Templates know OpenAI's older name.
  read.role = role == developer ? "system" : message.text("role");
  read.content = read_content(message, read.reasoning);
  read.name = message.text("name");
  if (role == assistant) message.also(assistant_table);
  if (role == tool) message.also(tool_table);
  if (role == assistant) read_assistant(message, read, is_continued);
  if (role == tool) {
    read.tool_call_id = message.text("tool_call_id");
    if (read.name.empty()) read.name = called_function(earlier, read.tool_call_id);
  }
  message.finish();
  if (role != assistant && message.find("content") == nullptr) {
    refuse_member(message.name_of("content"), "is missing", MemberProblem::missing);
  }
  return read;
}

void read_messages(Members& members, std::vector<ChatMessage>& messages, ChatOptions& options) {
  const RequestJson& list = members.must_find("messages");
  if (!list.is_array() || list.empty()) refuse_member("messages", "is no list of at least one message");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (options.continues_last_message)
      refuse_member(fmt::format("messages[{}].prefix", i - 1), "is true, and the message is not the last one");
    const std::string place = fmt::format("messages[{}]", i);
    messages.push_back(read_message(list[i], place, messages, members.rules(), options.continues_last_message));
  }
}

void read_max_tokens(Members& members, GenerationSettings& settings) {
  const std::size_t older = members.count("max_tokens"), newer = members.count("max_completion_tokens");
  if (older != 0 && newer != 0 && older != newer) {
    refuse_member("max_tokens", fmt::format("is {}, and max_completion_tokens {}; accepted: one of them, or equal ones",
                                            older, newer));
  }
  settings.max_tokens = std::max(older, newer);
}

void read_log_probabilities(Members& members, GenerationSettings& settings) {
  settings.log_probabilities = members.flag("logprobs", false);
  const auto count = members.whole("top_logprobs");
  if (count && *count != 0 && !settings.log_probabilities)
    refuse_member("top_logprobs", "is for answers with logprobs: true");
  settings.top_log_probabilities = static_cast<std::uint32_t>(count.value_or(0));
}

void read_template_options(Members& members, std::string_view body, ChatOptions& options) {
  options.add_generation_prompt = members.flag("add_generation_prompt", true);
  options.continues_last_message = options.continues_last_message || members.flag("continue_final_message", false);
  if (options.continues_last_message && members.find("add_generation_prompt") != nullptr &&
      options.add_generation_prompt) {
    refuse_member("continue_final_message", "and add_generation_prompt are both true; accepted: one of them");
  }
  const RequestJson* values = members.find("chat_template_kwargs");
  if (values == nullptr) return;
  if (!values->is_object()) refuse_member("chat_template_kwargs", "is no object");
  options.template_values = member_text(body, "chat_template_kwargs");
}

void refuse_unsupported(Members& members) {
  if (members.flag("echo", false)) refuse_member("echo", ": answers do not repeat messages; accepted: false");
  if (members.flag("add_special_tokens", false)) {
    refuse_member("add_special_tokens", ": the chat template has them; accepted: false");
  }
  const std::vector<std::string> modalities = members.texts("modalities");
  if (std::ranges::any_of(modalities, [](const std::string& one) { return one != "text"; })) {
    refuse_member("modalities", "has others than text; accepted: [\"text\"]");
  }
}

}  // namespace

std::span<const Field> chat_fields() {
  static const std::vector<Field> fields =
      joined({messages_table, generation_fields(), chat_table, tools_table, tool_choice_fields(), template_table,
              reasoning_fields(), refused_table});
  return fields;
}

OpenAiChat read_chat(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::conversation);
  Members members(json, "", chat_fields(), reading.rules);
  OpenAiChat read;
  GenerationSettings& settings = read.chat.settings;
  ChatOptions& options = read.chat.options;
  read.model = members.text("model");
  read_messages(members, read.chat.messages, options);
  read_sampling(members, settings);
  read_max_tokens(members, settings);
  read_log_probabilities(members, settings);
  read.answers = read_answers(members);
  read.stream = read_stream(members);
  read_prompt_scores(members, read.stream, settings);
  read_tool_choice(members, read_tools(members, body, options), options);
  read_template_options(members, body, options);
  read.reasoning_member = read_reasoning(members, options);
  settings.constraint = read_constraint(members, body);
  read.form_member = constraint_member(members);
  // Calls come instead of a text with a form.
  if (options.tool_choice == ToolChoice::required) read.form_member = "tools";
  refuse_unsupported(members);
  members.finish();
  check_settings(settings);
  return read;
}

}  // namespace gpux::server
