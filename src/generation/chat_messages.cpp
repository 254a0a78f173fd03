#include "generation/chat_messages.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_problem.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ChatMessage& message) {
  Json json{{"role", message.role}, {"content", message.content}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  for (const ToolCall& call : message.tool_calls) {
    json["tool_calls"].push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  if (!message.tool_call_id.empty()) json["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) json["name"] = message.name;
  return json;
}

[[noreturn]] void refuse(const std::string& place, std::string_view accepted) {
  throw Error(ErrorCode::invalid_input, fmt::format("{} is not {}", place, accepted));
}

std::string text_in(const Json& value, const std::string& place) {
  if (value.is_null()) return {};
  if (!value.is_string()) refuse(place, "a text");
  return value.get<std::string>();
}

ToolCall call_in(const Json& json, const std::string& place) {
  if (!json.is_object() || !json.contains("function") || !json["function"].is_object()) {
    refuse(place, "a call: {\"id\": …, \"type\": \"function\", \"function\": {\"name\": …, \"arguments\": …}}");
  }
  ToolCall call;
  for (const auto& [key, value] : json.items()) {
    if (key == "id") call.id = text_in(value, place + ".id");
  }
  const Json& function = json["function"];
  call.name = text_in(function.value("name", Json()), place + ".function.name");
  call.arguments = text_in(function.value("arguments", Json()), place + ".function.arguments");
  return call;
}

std::vector<ToolCall> calls_in(const Json& json, const std::string& place) {
  std::vector<ToolCall> calls;
  if (json.is_null()) return calls;
  if (!json.is_array()) refuse(place, "a list of calls");
  for (const Json& call : json) calls.push_back(call_in(call, fmt::format("{}[{}]", place, calls.size())));
  return calls;
}

ChatMessage message_in(const Json& json, const std::string& place) {
  if (!json.is_object()) refuse(place, "a message: {\"role\": …, \"content\": …}");
  ChatMessage message;
  for (const auto& [key, value] : json.items()) {
    const std::string member = place + "." + key;
    if (key == "role") {
      message.role = text_in(value, member);
    } else if (key == "content") {
      message.content = text_in(value, member);
    } else if (key == "reasoning_content") {
      message.reasoning = text_in(value, member);
    } else if (key == "tool_calls") {
      message.tool_calls = calls_in(value, member);
    } else if (key == "tool_call_id") {
      message.tool_call_id = text_in(value, member);
    } else if (key == "name") {
      message.name = text_in(value, member);
    } else {
      throw Error(
          ErrorCode::invalid_input,
          fmt::format("{} is unknown; accepted: role, content, reasoning_content, tool_calls, tool_call_id, name",
                      member));
    }
  }
  if (message.role.empty()) throw Error(ErrorCode::invalid_input, place + " has no role");
  return message;
}

}  // namespace

std::string to_json(std::span<const ChatMessage> messages) {
  Json list = Json::array();
  for (const ChatMessage& message : messages) list.push_back(json_of(message));
  return list.dump(2) + "\n";
}

std::vector<ChatMessage> read_messages(std::string_view json) {
  require_utf8(json);
  constexpr std::size_t max_nesting = 8;
  // Deeper than messages are: the parser would use the stack for it.
  const auto is_flat = [](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    if (static_cast<std::size_t>(depth) > max_nesting) refuse("the conversation", "a list of messages");
    return true;
  };
  Json list;
  try {
    list = Json::parse(json, is_flat);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_input, fmt::format("the conversation is not JSON: {}", json_problem(error)));
  }
  if (!list.is_array()) refuse("the conversation", "a list of messages");
  std::vector<ChatMessage> messages;
  for (const Json& message : list) {
    messages.push_back(message_in(message, fmt::format("messages[{}]", messages.size())));
  }
  return messages;
}

}  // namespace gpux::generation
