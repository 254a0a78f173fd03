#include "server/protocols/openai/chat_requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"

namespace gpux::server {
namespace {

constexpr std::size_t max_log_probabilities = 20;

// What changes no answer: notes of LiteLLM on the answers of other services, and hints for caches of prompts.
void skip_notes(Members& members) {
  for (const char* name : {"provider_specific_fields", "cache_control"}) {
    const RequestJson* note = members.find(name);
    if (note != nullptr && !note->is_object()) refuse_member(members.name_of(name), "is no object");
  }
}

// Several texts are lines of one, as vLLM joins them.
std::string read_parts(const RequestJson& parts, const std::string& place) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Members part(parts[i], fmt::format("{}[{}]", place, i));
    const std::string type = part.text("type");
    if (type != "text") {
      refuse_member(part.name_of("type"), fmt::format("is '{}'; accepted: text", utf8_prefix(type, 40)));
    }
    if (i != 0) text += '\n';
    part.must_find("text");
    text += part.text("text");
    skip_notes(part);
    part.refuse_others();
  }
  return text;
}

std::string read_content(Members& message) {
  const RequestJson* content = message.find("content");
  if (content == nullptr) return {};
  if (content->is_array()) return read_parts(*content, message.name_of("content"));
  if (!content->is_string()) refuse_member(message.name_of("content"), "is neither a text nor a list");
  return content->get<std::string>();
}

ToolCall read_tool_call(const RequestJson& value, const std::string& place) {
  Members members(value, place);
  ToolCall call;
  call.id = members.text("id");
  (void)members.choice("type", {"function"});
  (void)members.whole("index");  // as streams have it
  Members function(members.must_find("function"), place + ".function");
  function.must_find("name");
  call.name = function.text("name");
  call.arguments = function.text("arguments");
  skip_notes(function);
  function.refuse_others();
  skip_notes(members);
  members.refuse_others();
  return call;
}

void read_tool_calls(Members& message, ChatMessage& read) {
  const RequestJson* calls = message.find("tool_calls");
  if (calls == nullptr) return;
  const std::string place = message.name_of("tool_calls");
  if (!calls->is_array()) refuse_member(place, "is no list");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    read.tool_calls.push_back(read_tool_call((*calls)[i], fmt::format("{}[{}]", place, i)));
  }
}

// With what answers have, and clients send back.
void read_assistant(Members& message, ChatMessage& read) {
  read.reasoning = message.text("reasoning_content");
  if (const std::string reasoning = message.text("reasoning"); read.reasoning.empty()) read.reasoning = reasoning;
  read_tool_calls(message, read);
  if (read.content.empty()) read.content = message.text("refusal");
  (void)message.find("refusal");
  message.refuse("audio", "accepted are texts");
  message.refuse("function_call", "accepted are tool_calls");
  const RequestJson* annotations = message.find("annotations");
  if (annotations != nullptr && !annotations->empty()) {
    refuse_member(message.name_of("annotations"), ": accepted are none");
  }
}

ChatMessage read_message(const RequestJson& value, const std::string& place, const std::vector<ChatMessage>& earlier) {
  enum Role : std::size_t { system, developer, user, assistant, tool };

  Members message(value, place);
  message.must_find("role");
  const std::size_t role = message.choice("role", {"system", "developer", "user", "assistant", "tool"}).value_or(user);
  ChatMessage read;
  // Templates know OpenAI's older name.
  read.role = role == developer ? "system" : message.text("role");
  read.content = read_content(message);
  read.name = message.text("name");
  skip_notes(message);
  if (role == assistant) read_assistant(message, read);
  if (role == tool) {
    read.tool_call_id = message.text("tool_call_id");
    if (read.name.empty()) read.name = called_function(earlier, read.tool_call_id);
  }
  message.refuse_others();
  if (role != assistant && message.find("content") == nullptr) {
    refuse_member(message.name_of("content"), "is missing", MemberProblem::missing);
  }
  return read;
}

void read_messages(Members& members, std::vector<ChatMessage>& messages) {
  const RequestJson& list = members.must_find("messages");
  if (!list.is_array() || list.empty()) refuse_member("messages", "is no list of at least one message");
  for (std::size_t i = 0; i < list.size(); ++i) {
    messages.push_back(read_message(list[i], fmt::format("messages[{}]", i), messages));
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
  const auto count = members.whole("top_logprobs", max_log_probabilities);
  if (count && *count != 0 && !settings.log_probabilities)
    refuse_member("top_logprobs", "is for answers with logprobs: true");
  settings.top_log_probabilities = static_cast<std::uint32_t>(count.value_or(0));
}

void read_template_options(Members& members, std::string_view body, ChatOptions& options) {
  options.add_generation_prompt = members.flag("add_generation_prompt", true);
  const RequestJson* values = members.find("chat_template_kwargs");
  if (values == nullptr) return;
  if (!values->is_object()) refuse_member("chat_template_kwargs", "is no object");
  options.template_values = member_text(body, "chat_template_kwargs");
}

void refuse_unsupported(Members& members) {
  if (members.flag("continue_final_message", false)) {
    refuse_member("continue_final_message", ": a message is not continued; accepted: false");
  }
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

ChatRequest read_chat(std::string_view body, const Cancellation& cancellation) {
  const RequestJson json = parse_request(body, cancellation, BodyObjects::conversation);
  Members members(json, "");
  ChatRequest read;
  read.model = members.text("model");
  read_messages(members, read.conversation.messages);
  read_sampling(members, read.settings);
  read_max_tokens(members, read.settings);
  read_log_probabilities(members, read.settings);
  read.answers = read_answers(members);
  read.stream = read_stream(members);
  read.conversation.tools = read_tools(members, body);
  read_tool_choice(members, read.conversation.tools);
  read_template_options(members, body, read.conversation.options);
  read.settings.constraint = read_constraint(members, body);
  read.form_member = constraint_member(members);
  if (read.form_member.empty() && read.conversation.tools.choice == ToolChoice::required) read.form_member = "tools";
  refuse_unsupported(members);
  read_labels(members);
  members.refuse_others();
  check_settings(read.settings);
  return read;
}

}  // namespace gpux::server
