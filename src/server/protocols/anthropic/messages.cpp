#include "server/protocols/anthropic/messages.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8_prefix.h"
#include "tensor/json_envelope.h"

namespace gpux::server::anthropic {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr Field type_field{"type", text, required}, cache_hint = ignored_field("cache_control");

constexpr std::array<std::string_view, 3> roles{"user", "assistant", "system"};

constexpr std::array<Field, 2> message_table{{
    {"role", choice, required, nullptr, roles},
    {"content", other, required},
}};

constexpr std::array<Field, 4> text_table{{
    type_field,
    {"text", text, required},
    cache_hint,
    ignored_field("citations"),
}};

constexpr std::array<Field, 3> thinking_table{{type_field, {"thinking", text, required}, ignored_field("signature")}};

// What is encrypted nobody but its server reads.
constexpr std::array<Field, 2> redacted_table{{type_field, ignored_field("data")}};

constexpr std::array<Field, 7> use_table{{
    type_field,
    {"id", text, required},
    {"name", text, required},
    {"input", other, required},
    cache_hint,
    ignored_field("caller"),
    refused_field("toolset_name", "accepted are tools of the request"),
}};

// The content tells the model whether it is an error.
constexpr std::array<Field, 6> result_table{{
    type_field,
    {"tool_use_id", text, required},
    {"content", other},
    ignored_field("is_error"),
    cache_hint,
    refused_field("toolset_name", "accepted are tools of the request"),
}};

[[noreturn]] void refuse_type(const std::string& place, const std::string& type,
                              std::span<const std::string_view> accepted) {
  refuse_member(place + ".type",
                fmt::format("is '{}'; accepted: {}", utf8_prefix(type, 40), fmt::join(accepted, ", ")));
}

std::string type_of(const RequestJson& block, const std::string& place) {
  if (!block.is_object()) refuse_member(place, "is no object");
  const auto type = block.find("type");
  if (type == block.end() || type->is_null()) refuse_member(place + ".type", "is missing", MemberProblem::missing);
  if (!type->is_string()) refuse_member(place + ".type", "is no text");
  return type->get<std::string>();
}

std::string read_text_block(const RequestJson& value, const std::string& place, MemberRules* rules) {
  Members block(value, place, text_table, rules);
  block.ignore("type");
  std::string read = block.text("text");
  block.finish();
  return read;
}

// A text, or blocks of texts, which are lines of one as in chats.
std::string read_texts(const RequestJson& value, const std::string& place, MemberRules* rules) {
  static constexpr std::array<std::string_view, 1> accepted{"text"};
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) refuse_member(place, "is neither a text nor a list of blocks");
  std::string joined;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string own_place = fmt::format("{}[{}]", place, i);
    if (const std::string type = type_of(value[i], own_place); type != "text") refuse_type(own_place, type, accepted);
    if (i != 0) joined += '\n';
    joined += read_text_block(value[i], own_place, rules);
  }
  return joined;
}

void append_line(std::string& text, const std::string& line) {
  if (!text.empty()) text += '\n';
  text += line;
}

class ConversationReader {
 public:
  explicit ConversationReader(MemberRules* rules) : rules_(rules) {}

  void read_message(const RequestJson& value, std::string_view written, const std::string& place) {
    Members message(value, place, message_table, rules_);
    message.ignore("role");
    const std::string role = message.text("role");
    const RequestJson& content = message.must_find("content");
    message.finish();
    const std::string content_place = place + ".content";
    if (content.is_array() && role == "assistant") {
      read_assistant(content, member_text(written, "content"), content_place);
    } else if (content.is_array() && role == "user") {
      read_user(content, content_place);
    } else {
      messages_.push_back({.role = role, .content = read_texts(content, content_place, rules_)});
    }
  }

  std::vector<ChatMessage> messages() && { return std::move(messages_); }

 private:
  void read_assistant(const RequestJson& blocks, std::string_view written, const std::string& place) {
    static constexpr std::array<std::string_view, 4> accepted{"text", "thinking", "redacted_thinking", "tool_use"};
    const std::vector<std::string_view> texts = split_array(written);
    ChatMessage message{.role = "assistant"};
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const RequestJson& value = blocks[i];
      const std::string own_place = fmt::format("{}[{}]", place, i);
      const std::string type = type_of(value, own_place);
      if (type == "text") {
        append_line(message.content, read_text_block(value, own_place, rules_));
      } else if (type == "thinking") {
        Members block(value, own_place, thinking_table, rules_);
        block.ignore("type");
        append_line(message.reasoning, block.text("thinking"));
        block.finish();
      } else if (type == "redacted_thinking") {
        Members block(value, own_place, redacted_table, rules_);
        block.ignore("type");
        block.finish();
      } else if (type == "tool_use") {
        message.tool_calls.push_back(read_use(value, texts.at(i), own_place));
      } else {
        refuse_type(own_place, type, accepted);
      }
    }
    messages_.push_back(std::move(message));
  }

  ToolCall read_use(const RequestJson& value, std::string_view written, const std::string& place) {
    Members block(value, place, use_table, rules_);
    block.ignore("type");
    ToolCall call{.id = block.text("id"), .name = block.text("name"), .arguments = {}};
    // A text is what a client could not read as an object.
    const RequestJson& input = block.must_find("input");
    if (!input.is_object() && !input.is_string())
      refuse_member(block.name_of("input"), "is neither an object nor a text");
    call.arguments = member_text(written, "input");
    block.finish();
    functions_[call.id] = call.name;
    return call;
  }

  void read_user(const RequestJson& blocks, const std::string& place) {
    static constexpr std::array<std::string_view, 2> accepted{"text", "tool_result"};
    ChatMessage message{.role = "user"};
    bool has_text = false;
    const auto end_text = [&] {
      if (std::exchange(has_text, false)) messages_.push_back(std::exchange(message, {.role = "user"}));
    };
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::string own_place = fmt::format("{}[{}]", place, i);
      const std::string type = type_of(blocks[i], own_place);
      if (type == "text") {
        append_line(message.content, read_text_block(blocks[i], own_place, rules_));
        has_text = true;
      } else if (type == "tool_result") {
        end_text();
        messages_.push_back(read_result(blocks[i], own_place));
      } else {
        refuse_type(own_place, type, accepted);
      }
    }
    end_text();
  }

  ChatMessage read_result(const RequestJson& value, const std::string& place) {
    Members block(value, place, result_table, rules_);
    block.ignore("type");
    ChatMessage message{.role = "tool"};
    message.tool_call_id = block.text("tool_use_id");
    if (const RequestJson* content = block.find("content")) {
      message.content = read_texts(*content, block.name_of("content"), rules_);
    }
    block.finish();
    const auto called = functions_.find(message.tool_call_id);
    if (called != functions_.end()) message.name = called->second;
    return message;
  }

  MemberRules* rules_;
  std::vector<ChatMessage> messages_;
  std::unordered_map<std::string, std::string> functions_;  // by the ids of their calls
};

}  // namespace

std::vector<ChatMessage> read_conversation(Members& members, std::string_view body) {
  const RequestJson& list = members.must_find("messages");
  if (!list.is_array() || list.empty()) refuse_member("messages", "is no list of at least one message");
  const std::vector<std::string_view> written = split_array(member_text(body, "messages"));
  ConversationReader reader(members.rules());
  for (std::size_t i = 0; i < list.size(); ++i) {
    reader.read_message(list[i], written.at(i), fmt::format("messages[{}]", i));
  }
  std::vector<ChatMessage> messages = std::move(reader).messages();
  if (const RequestJson* system = members.find("system")) {
    std::string text = read_texts(*system, "system", members.rules());
    if (!text.empty()) messages.insert(messages.begin(), {.role = "system", .content = std::move(text)});
  }
  return messages;
}

bool continues_last_message(const std::vector<ChatMessage>& messages) {
  if (messages.empty() || messages.back().role != "assistant") return false;
  const ChatMessage& last = messages.back();
  if (last.content.empty() || !last.tool_calls.empty()) {
    refuse_member("messages", "end with a message of the assistant that is no text; accepted there: text");
  }
  return true;
}

}  // namespace gpux::server::anthropic
