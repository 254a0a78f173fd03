// What Anthropic's clients write, taken apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/refusal.h"
#include "server/protocols/anthropic/requests.h"

namespace gpux::server::anthropic {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

const std::string hello = R"("max_tokens": 9, "messages": [{"role": "user", "content": "hello"}])";

TEST(MessageRequests, ReadBlocksAsMessages) {
  const MessageRequest read = read_message_request(R"({"model": "m", "max_tokens": 5,
    "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
    "messages": [
      {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "e"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"z": 1, "a": 2}},
        {"type": "tool_use", "id": "2", "name": "g", "input": "{\"a\": \"x"}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "2", "content": "out"},
        {"type": "tool_result", "tool_use_id": "1", "is_error": true,
         "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
        {"type": "tool_result", "tool_use_id": "3"},
        {"type": "text", "text": "so?", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}]})");
  EXPECT_EQ(read.model, "m");
  EXPECT_EQ(read.chat.settings.max_tokens, 5U);
  const std::vector<ChatMessage>& messages = read.chat.messages;
  ASSERT_EQ(messages.size(), 7U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "a\nb");
  EXPECT_EQ(messages[1].content, "c\nd");
  EXPECT_EQ(messages[2].reasoning, "hm");
  EXPECT_EQ(messages[2].content, "e");
  ASSERT_EQ(messages[2].tool_calls.size(), 2U);
  EXPECT_EQ(messages[2].tool_calls[0].arguments, R"({"z": 1, "a": 2})");  // in order
  EXPECT_EQ(messages[2].tool_calls[1].arguments, R"("{\"a\": \"x")");     // which a client could not read
  EXPECT_EQ(messages[3].role, "tool");
  EXPECT_EQ(messages[3].name, "g");
  EXPECT_EQ(messages[3].content, "out");
  EXPECT_EQ(messages[4].name, "f");
  EXPECT_EQ(messages[4].content, "x\ny");
  EXPECT_EQ(messages[5].content, "");
  EXPECT_EQ(messages[6].role, "user");
  EXPECT_EQ(messages[6].content, "so?");
}

TEST(MessageRequests, BeginTheAnswer) {
  EXPECT_FALSE(read_message_request("{" + hello + "}").chat.options.continues_last_message);
  const MessageRequest read = read_message_request(R"({"max_tokens": 9, "messages": [
    {"role": "user", "content": "JSON please"}, {"role": "assistant", "content": "{"}]})");
  EXPECT_TRUE(read.chat.options.continues_last_message);
  EXPECT_EQ(read.chat.messages.back().content, "{");
}

TEST(MessageRequests, ReadSettings) {
  const MessageRequest read = read_message_request("{" + hello + R"(, "temperature": 0.5, "top_p": 0.9, "top_k": 3,
    "stop_sequences": ["x", "y"], "stream": true, "metadata": {"user_id": "u"}, "service_tier": "auto"})");
  EXPECT_EQ(read.chat.settings.temperature, 0.5F);
  EXPECT_EQ(read.chat.settings.top_k, 3U);
  EXPECT_THAT(read.chat.settings.stop, ElementsAre("x", "y"));
  EXPECT_TRUE(read.is_streamed);
  EXPECT_FALSE(generation::offers_tools(read.chat.options));
  const MessageRequest shaped = read_message_request(
      "{" + hello + R"(, "output_config": {"format": {"type": "json_schema", "schema": {"z": 1, "a": 2}}}})");
  EXPECT_EQ(shaped.chat.settings.constraint.kind, OutputConstraint::Kind::json_schema);
  EXPECT_EQ(shaped.chat.settings.constraint.text, R"({"z": 1, "a": 2})");
  EXPECT_EQ(shaped.form_member, "output_config.format");
}

TEST(MessageRequests, ReadThinking) {
  const auto read = [](const std::string& members) { return read_message_request("{" + hello + members + "}"); };
  EXPECT_EQ(read("").thinking, Thinking::absent);
  EXPECT_EQ(read("").effort, std::nullopt);
  EXPECT_EQ(read(R"(, "thinking": {"type": "enabled", "budget_tokens": 1024})").thinking, Thinking::enabled);
  EXPECT_EQ(read(R"(, "thinking": {"type": "disabled"})").thinking, Thinking::disabled);
  const MessageRequest adaptive = read(R"(, "thinking": {"type": "adaptive", "display": "omitted"})");
  EXPECT_EQ(adaptive.thinking, Thinking::adaptive);
  EXPECT_FALSE(adaptive.shows_thinking);
  EXPECT_EQ(read(R"(, "output_config": {"effort": "high"})").effort, ReasoningEffort::high);
  EXPECT_EQ(read(R"(, "output_config": {"effort": "max"})").effort, ReasoningEffort::xhigh);
}

TEST(MessageRequests, AskForReasoningAsTheTemplateKnowsIt) {
  using enum ReasoningEffort;
  const std::string never = "{{ messages }}", always = "{{ messages }}<think></think>",
                    can_switch = always + "{% if enable_thinking %}{% endif %}",
                    has_levels = always + "{{ reasoning_effort }}";
  const AskedReasoning nothing, off{.effort = none, .member = "thinking"}, on{.effort = usual, .member = "thinking"};
  const auto of_effort = [](ReasoningEffort effort) {
    return AskedReasoning{.effort = effort, .member = "output_config.effort"};
  };

  struct {
    Thinking thinking;
    std::optional<ReasoningEffort> effort;
    const std::string& template_text;
    AskedReasoning asked;
  } const cases[]{
      {Thinking::absent, {}, never, off},
      {Thinking::absent, {}, can_switch, off},
      {Thinking::absent, {}, always, nothing},
      {Thinking::adaptive, {}, can_switch, nothing},
      {Thinking::enabled, {}, can_switch, on},
      {Thinking::enabled, {}, never, on},
      {Thinking::disabled, {}, always, off},
      {Thinking::disabled, low, has_levels, off},
      {Thinking::absent, low, has_levels, of_effort(low)},
      {Thinking::enabled, high, has_levels, of_effort(high)},
      {Thinking::enabled, high, can_switch, on},
      {Thinking::adaptive, high, always, nothing},
      {Thinking::adaptive, low, never, of_effort(low)},
  };

  for (const auto& [thinking, effort, template_text, asked] : cases) {
    const AskedReasoning found = asked_reasoning(thinking, effort, template_text);
    EXPECT_EQ(found.effort, asked.effort) << template_text;
    EXPECT_EQ(found.member, asked.member) << template_text;
  }
}

TEST(MessageRequests, ReadTools) {
  const std::string tools = R"(, "tools": [{"name": "f", "description": "d", "cache_control": {"type": "ephemeral"},
    "input_schema": {"type": "object", "properties": {"z": {}, "a": {}}}},
    {"type": "custom", "name": "g", "input_schema": {"type": "object"}}])";
  const auto choose = [&](const std::string& choice) {
    return read_message_request("{" + hello + tools + choice + "}").chat.options;
  };
  const ChatOptions automatic = choose("");
  EXPECT_EQ(automatic.tool_choice, ToolChoice::automatic);
  EXPECT_TRUE(automatic.allows_several_calls);
  const std::vector<generation::ToolFunction> functions = generation::tool_functions(automatic.tools);
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].parameters, R"({"type": "object", "properties": {"z": {}, "a": {}}})");
  EXPECT_EQ(choose(R"(, "tool_choice": {"type": "auto"})").tool_choice, ToolChoice::automatic);
  const ChatOptions any = choose(R"(, "tool_choice": {"type": "any", "disable_parallel_tool_use": true})");
  EXPECT_EQ(any.tool_choice, ToolChoice::required);
  EXPECT_FALSE(any.allows_several_calls);
  EXPECT_EQ(choose(R"(, "tool_choice": {"type": "tool", "name": "g"})").tool_name, "g");
  EXPECT_FALSE(generation::offers_tools(choose(R"(, "tool_choice": {"type": "none"})")));
}

TEST(MessageRequests, AreRefusedByName) {
  const std::string user = R"("messages": [{"role": "user", "content": "a"}])";

  struct {
    std::string members;
    const char* reason;
  } const cases[]{
      {user, "max_tokens is missing"},
      {R"("max_tokens": 9)", "messages is missing"},
      {R"("max_tokens": 9, "messages": [])", "messages is no list of at least one message"},
      {R"("max_tokens": 9, "messages": [{"role": "tool", "content": "a"}])",
       "messages[0].role is 'tool'; accepted: user, assistant, system"},
      {R"("max_tokens": 9, "messages": [{"role": "user", "content": 3}])",
       "messages[0].content is neither a text nor a list of blocks"},
      {R"("max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}])",
       "messages[0].content[0].type is 'image'; accepted: text, tool_result"},
      {R"("max_tokens": 9, "messages": [{"role": "user", "content": [{"text": "a"}]}])",
       "messages[0].content[0].type is missing"},
      {R"("max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}])",
       "messages[0].content[0].type is 'server_tool_use'; accepted: text, thinking, redacted_thinking, tool_use"},
      {R"("max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}])",
       "messages[0].content[0].tool_use_id is missing"},
      {R"("max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
         "content": [{"type": "document"}]}]}])",
       "messages[0].content[0].content[0].type is 'document'; accepted: text"},
      {R"("max_tokens": 9, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
         {"type": "tool_use", "id": "1", "name": "f", "input": {}}]}])",
       "messages end with a message of the assistant that is no text; accepted there: text"},
      {hello + R"(, "system": 3)", "system is neither a text nor a list of blocks"},
      {hello + R"(, "stop_sequences": "a")", "stop_sequences is no list of texts"},
      {hello + R"(, "stop_sequences": [""])", "stop_sequences has a text of 0 bytes"},
      {hello + R"(, "temperature": -1)", "temperature is -1; accepted: 0 to 100"},
      {hello + R"(, "thinking": {"type": "sometimes"})",
       "thinking.type is 'sometimes'; accepted: enabled, disabled, adaptive"},
      {hello + R"(, "output_config": {"effort": "extreme"})",
       "output_config.effort is 'extreme'; accepted: low, medium, high, xhigh, max"},
      {hello + R"(, "tools": [{"type": "bash_20250124", "name": "bash"}])",
       "tools[0].type is 'bash_20250124'; accepted: custom"},
      {hello + R"(, "tools": [{"name": "f"}])", "tools[0].input_schema is missing"},
      {hello + R"(, "tools": [{"name": "f", "input_schema": {}, "defer_loading": true}])",
       "tools[0].defer_loading: the model sees all tools; accepted: false"},
      {hello + R"(, "tool_choice": {"type": "any"})", "tool_choice is there, and no tools are"},
      {hello + R"(, "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "tool", "name": "g"})",
       "tool_choice.name is 'g', which is none of the tools"},
      {hello + R"(, "mcp_servers": [{"name": "a"}])", "mcp_servers: accepted are tools, which the client calls"},
      {hello + R"(, "container": "a")", "container: there are none"},
      {hello + R"(, "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]})",
       "context_management.edits[0].type is 'clear_tool_uses_20250919'; accepted: clear_thinking_20251015"},
      {hello + R"(, "colour": 1)", "colour is not known; accepted: "},
  };

  for (const auto& [members, reason] : cases) {
    EXPECT_THAT(refusal([&] { (void)read_message_request("{" + members + "}"); }), HasSubstr(reason)) << members;
  }
}

// As Claude Code 2.1 writes it: blocks with cache hints, tools, an id of the user, a message of the system at the end,
// and what changes nothing here.
TEST(MessageRequests, TakeThoseOfClaudeCode) {
  const MessageRequest read = read_message_request(R"({"model": "m", "max_tokens": 32000, "stream": true,
    "metadata": {"user_id": "{\"device_id\":\"8001\",\"session_id\":\"f037\"}"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197;"},
               {"type": "text", "text": "You are a Claude agent.", "cache_control": {"type": "ephemeral"}},
               {"type": "text", "text": "Be concise.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "tools": [{"name": "Bash", "description": "Runs a command", "input_schema": {"$schema":
      "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {"command": {"type": "string"}},
      "required": ["command"], "additionalProperties": false}}],
    "messages": [
      {"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nnotes\n</system-reminder>"},
        {"type": "text", "text": "list the files", "cache_control": {"type": "ephemeral"}}]},
      {"role": "system", "content": "Available agent types"}]})");
  EXPECT_TRUE(read.is_streamed);
  ASSERT_EQ(read.chat.messages.size(), 3U);
  EXPECT_EQ(read.chat.messages[1].content, "<system-reminder>\nnotes\n</system-reminder>\nlist the files");
  EXPECT_EQ(read.chat.messages[2].role, "system");
  EXPECT_TRUE(generation::offers_tools(read.chat.options));
  // As a model without levels does by itself.
  EXPECT_EQ(asked_reasoning(read.thinking, read.effort, "{{ messages }}").effort, std::nullopt);
}

TEST(MessageRequests, AreReadForTheirTokensAlone) {
  const MessageRequest read =
      read_token_count_request(R"({"model": "m", "system": "s", "messages": [{"role": "user", "content": "a"}]})");
  EXPECT_EQ(read.chat.messages.size(), 2U);
  EXPECT_THAT(refusal([&] { (void)read_token_count_request("{" + hello + "}"); }),
              HasSubstr("max_tokens is not known"));
}

}  // namespace
}  // namespace gpux::server::anthropic
