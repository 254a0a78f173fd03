#include "generation/chat_prompt.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "base/utf8.h"
#include "checkpoint/json_settings.h"
#include "generation/json_extent.h"
#include "generation/reasoning_request.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using Json = JsonSettings::Json;

constexpr std::array token_names{"bos_token", "eos_token", "unk_token", "sep_token",
                                 "pad_token", "cls_token", "mask_token"};

// A text, or an object with it: tokenizer_config.json has both forms.
std::optional<std::string> text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return std::nullopt;
  const auto content = value.find("content");
  if (content == value.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

void add_tokens(const JsonSettings& file, std::map<std::string, std::string>& tokens) {
  for (const char* name : token_names) {
    const Json* value = file.find(name);
    if (value == nullptr) continue;
    std::optional<std::string> text = text_of(*value);
    if (!text) file.refuse_value(name, *value, "a text, or an object with its content");
    tokens[name] = *std::move(text);
  }
}

void add_templates(const JsonSettings& file, ChatTemplateTexts& texts) {
  const Json* value = file.find("chat_template");
  if (value == nullptr) return;
  if (value->is_string()) {
    texts.usual = value->get<std::string>();
    return;
  }
  if (!value->is_array()) file.refuse_value("chat_template", *value, "a text, or a list of named ones");
  for (const Json& named : *value) {
    const bool is_named =
        named.is_object() && named.value("name", Json()).is_string() && named.value("template", Json()).is_string();
    if (!is_named) file.refuse_value("chat_template", named, "an object with name and template");
    const std::string name = named["name"];
    if (name == "default") texts.usual = named["template"];
    if (name == "tool_use") texts.tool_use = named["template"];
  }
}

std::string file_text(const fs::path& file) {
  std::error_code unreadable;
  return fs::is_regular_file(file, unreadable) ? read_file(file) : std::string();
}

std::string json_text(std::string_view text) {
  require_utf8(text);
  return Json(text).dump();
}

// Spliced in as it is, so that its numbers and the order of its keys stay: it must be one whole value.
std::string_view checked(std::string_view json, char opening, const Message& what) {
  const std::size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json[first] != opening || !is_json(json)) {
    throw Error(ErrorCode::invalid_input,
                format_message("{} not JSON; accepted: {}", what, opening == '[' ? "an array" : "an object"));
  }
  return json;
}

// An object as it is written. Clients also send back what a model did not end, or what they could not read, and some
// wrap that in a JSON string: a text then.
std::string arguments_json(std::string_view written) {
  const std::size_t first = written.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "{}";
  if (!is_json(written)) return json_text(written);
  switch (written[first]) {
    case '{':
      return std::string(written);
    case '"':
      return arguments_json(Json::parse(written).get_ref<const std::string&>());
    case 'n':  // null
      return "{}";
    default:
      return json_text(written);
  }
}

bool is_text(std::string_view json) {
  return json.starts_with('"');
}

// What a template is given for arguments that are a text: the text, or an object that has it as its only member.
enum class TextArguments : std::uint8_t { text, object };

std::string json_of(const ToolCall& call, TextArguments form) {
  std::string arguments = arguments_json(call.arguments);
  if (form == TextArguments::object && is_text(arguments)) arguments = fmt::format(R"({{"arguments": {}}})", arguments);
  const std::string id = call.id.empty() ? std::string() : fmt::format(R"("id": {}, )", json_text(call.id));
  return fmt::format(R"({{{}"type": "function", "function": {{"name": {}, "arguments": {}}}}})", id,
                     json_text(call.name), arguments);
}

bool has_text_arguments(std::span<const ChatMessage> messages) {
  return std::ranges::any_of(messages, [](const ChatMessage& message) {
    return std::ranges::any_of(message.tool_calls,
                               [](const ToolCall& call) { return is_text(arguments_json(call.arguments)); });
  });
}

std::string json_of(const ChatMessage& message, TextArguments form) {
  std::string json = "{";
  // transformers gives it to templates under these names.
  if (!message.reasoning.empty()) json += fmt::format(R"("thinking": {}, )", json_text(message.reasoning));
  json += fmt::format(R"("role": {}, "content": {})", json_text(message.role), json_text(message.content));
  if (!message.reasoning.empty()) json += fmt::format(R"(, "reasoning_content": {})", json_text(message.reasoning));
  for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
    json += (i == 0 ? R"(, "tool_calls": [)" : ", ") + json_of(message.tool_calls[i], form);
  }
  if (!message.tool_calls.empty()) json += ']';
  if (!message.tool_call_id.empty()) json += fmt::format(R"(, "tool_call_id": {})", json_text(message.tool_call_id));
  if (!message.name.empty()) json += fmt::format(R"(, "name": {})", json_text(message.name));
  return json + "}";
}

// The members of an object, without its brackets.
std::string_view members_of(std::string_view object) {
  object.remove_prefix(object.find('{') + 1);
  return object.substr(0, object.rfind('}'));
}

void check_template_values(std::string_view json) {
  const Json values = Json::parse(checked(json, '{', {setting_named("template_values"), " are"}));
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
    if (!values.contains(name)) continue;
    throw Error(ErrorCode::invalid_input,
                format_message("{} has '{}', which has a place of its own", setting_named("template_values"), name));
  }
}

std::string messages_json(std::span<const ChatMessage> messages, TextArguments form) {
  std::string json = "[";
  for (const ChatMessage& message : messages) {
    if (&message != messages.data()) json += ", ";
    json += json_of(message, form);
  }
  return json + "]";
}

// A value of chat_template_kwargs comes before one that a request's effort sets.
std::string reasoning_members(ReasoningEffort effort, std::string_view template_text, const ChatOptions& options) {
  const Json given = options.template_values.empty() ? Json::object() : Json::parse(options.template_values);
  std::string members;
  for (const TemplateVariable& variable : reasoning_variables(effort, template_text)) {
    if (!given.contains(variable.name)) members += fmt::format(R"(, "{}": {})", variable.name, variable.value);
  }
  return members;
}

}  // namespace

std::optional<ChatTemplateTexts> read_chat_templates(const fs::path& folder) {
  ChatTemplateTexts texts;
  const JsonSettings config(folder / "tokenizer_config.json");
  texts.usual = file_text(folder / "chat_template.jinja");
  texts.tool_use = file_text(folder / "additional_chat_templates" / "tool_use.jinja");
  if (texts.usual.empty() && texts.tool_use.empty()) add_templates(config, texts);
  if (texts.usual.empty() && texts.tool_use.empty()) {
    add_templates(JsonSettings(folder / "chat_template.json"), texts);
  }
  if (texts.usual.empty() && texts.tool_use.empty()) return std::nullopt;
  if (texts.usual.empty()) std::swap(texts.usual, texts.tool_use);
  texts.special_tokens = read_special_tokens(folder);
  return texts;
}

std::map<std::string, std::string> read_special_tokens(const fs::path& folder) {
  std::map<std::string, std::string> tokens;
  const JsonSettings config(folder / "tokenizer_config.json");
  add_tokens(config, tokens);
  // The older of the two files: it counts where the newer one does not list the tokens itself.
  if (config.find("added_tokens_decoder") == nullptr) {
    add_tokens(JsonSettings(folder / "special_tokens_map.json"), tokens);
  }
  return tokens;
}

ChatPrompt::ChatPrompt(ChatTemplateTexts texts)
    : texts_(std::move(texts)), usual_(text::ChatTemplate::compile(texts_.usual)) {
  if (!texts_.tool_use.empty()) tool_use_ = text::ChatTemplate::compile(texts_.tool_use);
  shows_tools_ = find_tools();
}

// Some templates for tools take no conversation without.
bool ChatPrompt::is_shown(std::string_view text_with_tools, std::span<const ChatMessage> messages,
                          const ChatOptions& options, std::chrono::system_clock::time_point now) const {
  try {
    return rendered(messages, options, tool_template(), false, now) != text_with_tools;
  } catch (const Error&) {
    return true;
  }
}

// A template that does not take this conversation is asked again with each one that has tools.
bool ChatPrompt::find_tools() const {
  ChatMessage message;
  message.role = "user";
  message.content = "x";
  ChatOptions options;
  options.tools = R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": )"
                  R"({"type": "object", "properties": {"p": {"type": "string"}}}}}])";
  const std::chrono::system_clock::time_point now;
  try {
    return is_shown(rendered({&message, 1}, options, tool_template(), true, now), {&message, 1}, options, now);
  } catch (const Error&) {
    return false;
  }
}

std::string ChatPrompt::text(std::span<const ChatMessage> messages, const ChatOptions& options,
                             std::chrono::system_clock::time_point now) const {
  if (messages.empty()) throw Error(ErrorCode::invalid_input, "a conversation needs a message");
  const bool has_tools = offers_tools(options);
  const text::ChatTemplate& chosen = has_tools ? tool_template() : usual_;
  std::string text = options.continues_last_message ? continued(messages, options, chosen, has_tools, now)
                                                    : rendered(messages, options, chosen, has_tools, now);
  if (has_tools && !shows_tools_ && !is_shown(text, messages, options, now)) {
    throw Error(ErrorCode::invalid_input,
                format_message("{} are given, and the chat template does not show them to the model; accepted: none",
                               setting_named("tools")));
  }
  return text;
}

// As transformers does, with its own mark, which templates know.
std::string ChatPrompt::continued(std::span<const ChatMessage> messages, const ChatOptions& options,
                                  const text::ChatTemplate& chosen, bool has_tools,
                                  std::chrono::system_clock::time_point now) const {
  constexpr std::string_view mark = "CONTINUE_FINAL_MESSAGE_TAG ", word = mark.substr(0, mark.size() - 1);
  const auto refuse = [](std::string_view reason) {
    throw Error(ErrorCode::invalid_input,
                format_message("{} is true, and {}", setting_named("continues_last_message"), reason));
  };
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  ChatMessage& last = marked.back();
  if (last.role != "assistant" || last.content.empty() || !last.tool_calls.empty()) {
    refuse("the last message is none of the assistant with content and without calls");
  }
  last.content += mark;
  ChatOptions without = options;
  without.add_generation_prompt = false;
  std::string text = rendered(marked, without, chosen, has_tools, now);
  const std::size_t at = text.rfind(word);
  if (at == std::string::npos) refuse("the chat template does not show the content of the last message");
  const bool is_trimmed = !std::string_view(text).substr(at).starts_with(mark);
  text.resize(at);
  if (is_trimmed) text.resize(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::string ChatPrompt::rendered(std::span<const ChatMessage> messages, const ChatOptions& options,
                                 const text::ChatTemplate& chosen, bool has_tools,
                                 std::chrono::system_clock::time_point now) const {
  std::string values = "{";
  for (const auto& [name, token] : texts_.special_tokens)
    values += fmt::format("{}: {}, ", json_text(name), json_text(token));
  values += R"("tools": )";
  values += has_tools ? checked(options.tools, '[', {setting_named("tools"), " are"}) : "null";
  values += fmt::format(R"(, "documents": null, "add_generation_prompt": {})", options.add_generation_prompt);
  if (!options.template_values.empty()) {
    check_template_values(options.template_values);
    const std::string_view members = members_of(options.template_values);
    if (members.find_first_not_of(" \t\r\n") != std::string_view::npos) values.append(", ").append(members);
  }
  if (options.reasoning) values += reasoning_members(*options.reasoning, template_text(has_tools), options);
  const auto render = [&](TextArguments form) {
    return chosen.render(fmt::format(R"({}, "messages": {}}})", values, messages_json(messages, form)), now);
  };
  try {
    return render(TextArguments::text);
  } catch (const Error&) {
    // Templates that write each argument take no text.
    if (!has_text_arguments(messages)) throw;
    return render(TextArguments::object);
  }
}

const std::string& ChatPrompt::template_text(bool has_tools) const noexcept {
  return has_tools && tool_use_ ? texts_.tool_use : texts_.usual;
}

}  // namespace gpux::generation
