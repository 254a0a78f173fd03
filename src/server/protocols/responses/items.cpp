#include "server/protocols/responses/items.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8_prefix.h"
#include "server/protocols/random_id.h"
#include "tensor/json_writer.h"

namespace gpux::server::responses {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 4> roles{"user", "assistant", "system", "developer"};

constexpr Field type_field{"type", text}, id_field{"id", text}, status_field = ignored_field("status");

constexpr std::array<Field, 6> message_table{{
    type_field,
    id_field,
    status_field,
    {"role", choice, required, nullptr, roles},
    {"content", other, required},
    ignored_field("phase"),
}};

constexpr std::array<Field, 8> call_table{{
    type_field,
    id_field,
    status_field,
    {"call_id", text, required},
    {"name", text, required},
    {"arguments", text, required},
    refused_field("namespace", "accepted are functions of the request's tools"),
    ignored_field("caller"),
}};

constexpr std::array<Field, 8> call_output_table{{
    type_field,
    id_field,
    status_field,
    {"call_id", text, required},
    {"output", other, required},
    {"name", text},
    refused_field("namespace", "accepted are functions of the request's tools"),
    ignored_field("caller"),
}};

// What is encrypted nobody but its server reads.
constexpr std::array<Field, 6> reasoning_table{{
    type_field,
    id_field,
    status_field,
    {"summary", other},
    {"content", other},
    ignored_field("encrypted_content"),
}};

constexpr std::array<Field, 2> reference_table{{type_field, {"id", text, required}}};

constexpr std::array<Field, 6> part_table{{
    type_field,
    {"text", text},
    {"refusal", text},
    ignored_field("annotations"),
    ignored_field("logprobs"),
    ignored_field("prompt_cache_breakpoint"),
}};

constexpr std::array<std::string_view, 3> text_parts{"input_text", "output_text", "refusal"};
constexpr std::array<std::string_view, 2> reasoning_parts{"reasoning_text", "text"};
constexpr std::array<std::string_view, 1> summary_parts{"summary_text"};

struct Reading {
  MemberRules* rules;
  bool has_json;
  std::shared_ptr<MemoryBudget> memory;
};

// Several texts are lines of one, as in chats.
std::string read_parts(const RequestJson& parts, const std::string& place, std::span<const std::string_view> types,
                       MemberRules* rules) {
  if (!parts.is_array()) refuse_member(place, "is neither a text nor a list");
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Members part(parts[i], fmt::format("{}[{}]", place, i), part_table, rules);
    const std::string type = part.text("type");
    if (std::ranges::find(types, type) == types.end()) {
      refuse_member(part.name_of("type"),
                    fmt::format("is '{}'; accepted: {}", utf8_prefix(type, 40), fmt::join(types, ", ")));
    }
    const std::string plain = part.text("text"), refusal = part.text("refusal");
    part.finish();
    const std::string member = type == "refusal" ? "refusal" : "text";
    if (part.find(member) == nullptr) refuse_member(part.name_of(member), "is missing", MemberProblem::missing);
    if (i != 0) joined += '\n';
    joined += type == "refusal" ? refusal : plain;
  }
  return joined;
}

std::string read_text_or_parts(Members& item, std::string_view name, MemberRules* rules) {
  const RequestJson& content = item.must_find(name);
  if (content.is_string()) return content.get<std::string>();
  return read_parts(content, item.name_of(name), text_parts, rules);
}

std::string id_of(Members& item, std::string_view prefix) {
  std::string id = item.text("id");
  return id.empty() ? random_id(prefix) : id;
}

std::shared_ptr<const ConversationItem> made(const Reading& reading, std::string id, std::string_view type,
                                             std::string json, ChatMessage message) {
  std::string whole;
  if (reading.has_json) {
    whole = R"({"id":)";
    append_json_string(whole, id);
    whole += fmt::format(R"(,"type":"{}","status":"completed"{}}})", type, json);
  }
  return std::make_shared<const ConversationItem>(std::move(id), std::move(whole), std::move(message),
                                                  MemoryShare(reading.memory));
}

void append_member(std::string& json, std::string_view name, std::string_view text) {
  json += fmt::format(R"(,"{}":)", name);
  append_json_string(json, text);
}

std::string message_json(std::string_view role, std::string_view text) {
  const bool is_output = role == "assistant";
  std::string json =
      fmt::format(R"(,"role":"{}","content":[{{"type":"{}","text":)", role, is_output ? "output_text" : "input_text");
  append_json_string(json, text);
  return json + (is_output ? R"(,"annotations":[]}])" : "}]");
}

std::shared_ptr<const ConversationItem> message_of(const Reading& reading, std::string id, const std::string& role,
                                                   std::string content) {
  std::string json = reading.has_json ? message_json(role, content) : std::string();
  // Templates know OpenAI's older name.
  ChatMessage message{.role = role == "developer" ? "system" : role, .content = std::move(content)};
  return made(reading, std::move(id), "message", std::move(json), std::move(message));
}

std::shared_ptr<const ConversationItem> read_message(const RequestJson& value, const std::string& place,
                                                     const Reading& reading) {
  Members item(value, place, message_table, reading.rules);
  item.ignore("type");
  item.ignore("role");
  const std::string role = item.text("role");
  std::string content = read_text_or_parts(item, "content", reading.rules);
  std::string id = id_of(item, "msg_");
  item.finish();
  return message_of(reading, std::move(id), role, std::move(content));
}

std::shared_ptr<const ConversationItem> read_call(const RequestJson& value, const std::string& place,
                                                  const Reading& reading) {
  Members item(value, place, call_table, reading.rules);
  item.ignore("type");
  ToolCall call{.id = item.text("call_id"), .name = item.text("name"), .arguments = item.text("arguments")};
  std::string id = id_of(item, "fc_");
  item.finish();
  std::string json;
  if (reading.has_json) {
    append_member(json, "call_id", call.id);
    append_member(json, "name", call.name);
    append_member(json, "arguments", call.arguments);
  }
  ChatMessage message{.role = "assistant"};
  message.tool_calls.push_back(std::move(call));
  return made(reading, std::move(id), "function_call", std::move(json), std::move(message));
}

std::shared_ptr<const ConversationItem> read_call_output(const RequestJson& value, const std::string& place,
                                                         const Reading& reading) {
  Members item(value, place, call_output_table, reading.rules);
  item.ignore("type");
  ChatMessage message{.role = "tool", .content = read_text_or_parts(item, "output", reading.rules)};
  message.tool_call_id = item.text("call_id");
  message.name = item.text("name");
  std::string id = id_of(item, "fco_");
  item.finish();
  std::string json;
  if (reading.has_json) {
    append_member(json, "call_id", message.tool_call_id);
    append_member(json, "output", message.content);
  }
  return made(reading, std::move(id), "function_call_output", std::move(json), std::move(message));
}

// The whole reasoning, or what there is of it.
std::shared_ptr<const ConversationItem> read_reasoning(const RequestJson& value, const std::string& place,
                                                       const Reading& reading) {
  Members item(value, place, reasoning_table, reading.rules);
  item.ignore("type");
  ChatMessage message{.role = "assistant"};
  std::string json;
  for (const auto& [name, types] : {std::pair("content", std::span<const std::string_view>(reasoning_parts)),
                                    std::pair("summary", std::span<const std::string_view>(summary_parts))}) {
    const RequestJson* parts = item.find(name);
    const std::string read =
        parts == nullptr ? std::string() : read_parts(*parts, item.name_of(name), types, reading.rules);
    if (message.reasoning.empty()) message.reasoning = read;
    if (!reading.has_json) continue;
    json += fmt::format(R"(,"{}":[)", name);
    if (!read.empty()) {
      json += fmt::format(R"({{"type":"{}","text":)", types.front());
      append_json_string(json, read);
      json += '}';
    }
    json += ']';
  }
  std::string id = id_of(item, "rs_");
  item.finish();
  return made(reading, std::move(id), "reasoning", std::move(json), std::move(message));
}

RequestedItem read_item(const RequestJson& value, const std::string& place, const Reading& reading) {
  struct Kind {
    std::string_view type;
    std::shared_ptr<const ConversationItem> (*read)(const RequestJson& value, const std::string& place,
                                                    const Reading& reading);
  };

  static constexpr std::array<Kind, 4> kinds{{
      {"message", read_message},
      {"function_call", read_call},
      {"function_call_output", read_call_output},
      {"reasoning", read_reasoning},
  }};
  if (!value.is_object()) refuse_member(place, "is no object");
  const auto type = value.find("type");
  // Those of messages and of references may be left out.
  const bool is_typed = type != value.end() && !type->is_null();
  if (is_typed && !type->is_string()) refuse_member(place + ".type", "is no text");
  const std::string name = is_typed ? type->get<std::string>() : value.contains("role") ? "message" : "item_reference";
  if (name == "item_reference") {
    Members item(value, place, reference_table, reading.rules);
    item.ignore("type");
    RequestedItem requested{.item = nullptr, .reference = item.text("id"), .place = place};
    (void)item.must_find("id");
    item.finish();
    return requested;
  }
  const auto* const kind = std::ranges::find(kinds, name, &Kind::type);
  if (kind == kinds.end()) {
    refuse_member(place + ".type", fmt::format("is '{}'; accepted: message, function_call, function_call_output, "
                                               "reasoning, item_reference",
                                               utf8_prefix(name, 40)));
  }
  return {.item = kind->read(value, place, reading), .reference = {}, .place = place};
}

}  // namespace

std::vector<RequestedItem> read_items(Members& members, bool has_json, const std::shared_ptr<MemoryBudget>& memory) {
  const Reading reading{.rules = members.rules(), .has_json = has_json, .memory = memory};
  const RequestJson& input = members.must_find("input");
  std::vector<RequestedItem> items;
  if (input.is_string()) {
    items.push_back({.item = message_of(reading, random_id("msg_"), "user", input.get<std::string>()),
                     .reference = {},
                     .place = "input"});
    return items;
  }
  if (!input.is_array()) refuse_member("input", "is neither a text nor a list of items");
  for (std::size_t i = 0; i < input.size(); ++i) {
    items.push_back(read_item(input[i], fmt::format("input[{}]", i), reading));
  }
  return items;
}

void append_item(std::vector<ChatMessage>& messages, ChatMessage item) {
  const bool joins = item.role == "assistant" && !messages.empty() && messages.back().role == "assistant";
  if (!joins) {
    messages.push_back(std::move(item));
    return;
  }
  ChatMessage& last = messages.back();
  const bool has_answered = !last.content.empty() || !last.tool_calls.empty();
  if (!item.tool_calls.empty()) {
    std::ranges::move(item.tool_calls, std::back_inserter(last.tool_calls));
  } else if (has_answered) {
    messages.push_back(std::move(item));
  } else {
    last.content += item.content;
    last.reasoning += item.reasoning;
  }
}

std::vector<ChatMessage> conversation_of(const std::string& instructions, const ConversationItems& items) {
  std::vector<ChatMessage> messages;
  std::unordered_map<std::string_view, std::string_view> functions;  // by the ids of their calls
  if (!instructions.empty()) messages.push_back({.role = "system", .content = instructions});
  for (const auto& item : items) {
    for (const ToolCall& call : item->message.tool_calls) functions[call.id] = call.name;
    ChatMessage message = item->message;
    const bool is_first_system = messages.size() == 1 && messages.front().role == "system" && message.role == "system";
    if (is_first_system) {
      messages.front().content += "\n\n" + message.content;
      continue;
    }
    if (message.role == "tool" && message.name.empty()) {
      const auto called = functions.find(message.tool_call_id);
      if (called != functions.end()) message.name = called->second;
    }
    append_item(messages, std::move(message));
  }
  return messages;
}

}  // namespace gpux::server::responses
