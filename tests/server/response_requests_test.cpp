// What clients of OpenAI's Responses API write, taken apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/refusal.h"
#include "server/protocols/responses/requests.h"

namespace gpux::server::responses {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

ConversationItems items_of(const ResponseRequest& read) {
  ConversationItems items;
  for (const RequestedItem& one : read.input) items.push_back(one.item);
  return items;
}

std::vector<ChatMessage> messages_of(const std::string& body) {
  const ResponseRequest read = read_response_request(body);
  return conversation_of(read.instructions, items_of(read));
}

TEST(ResponseRequests, ReadATextAsTheMessageOfAUser) {
  const ResponseRequest read = read_response_request(R"({"model": "m", "instructions": "be brief", "input": "hello"})");
  EXPECT_EQ(read.model, "m");
  EXPECT_TRUE(read.is_stored);
  EXPECT_FALSE(read.is_streamed);
  const std::vector<ChatMessage> messages = conversation_of(read.instructions, items_of(read));
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "be brief");
  EXPECT_EQ(messages[1].role, "user");
  EXPECT_EQ(messages[1].content, "hello");
  const Json json = Json::parse(read.input.front().item->json);
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["content"], Json::parse(R"([{"type": "input_text", "text": "hello"}])"));
  EXPECT_THAT(json["id"].get<std::string>(), testing::StartsWith("msg_"));
}

TEST(ResponseRequests, JoinTheItemsOfOneAnswer) {
  const std::vector<ChatMessage> messages = messages_of(R"({"instructions": "a", "input": [
    {"role": "developer", "content": "b"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "c"}, {"type": "input_text", "text": "d"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "e", "annotations": [], "logprobs": []}]},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"z\": 1, \"a\": 2}"},
    {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "2", "output": "out"},
    {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "x"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}]},
    {"role": "assistant", "content": "f"},
    {"role": "assistant", "content": "g"},
    {"role": "system", "content": "later"}]})");
  ASSERT_EQ(messages.size(), 8U);
  EXPECT_EQ(messages[0].content, "a\n\nb");
  EXPECT_EQ(messages[1].content, "c\nd");
  EXPECT_EQ(messages[2].role, "assistant");
  EXPECT_EQ(messages[2].reasoning, "hm");
  EXPECT_EQ(messages[2].content, "e");
  ASSERT_EQ(messages[2].tool_calls.size(), 2U);
  EXPECT_EQ(messages[2].tool_calls[0].arguments, R"({"z": 1, "a": 2})");
  EXPECT_EQ(messages[3].role, "tool");
  EXPECT_EQ(messages[3].name, "g");  // of the call that it answers
  EXPECT_EQ(messages[4].name, "f");
  EXPECT_EQ(messages[4].content, "x");
  EXPECT_EQ(messages[5].reasoning, "short");
  EXPECT_EQ(messages[5].content, "f");
  EXPECT_EQ(messages[6].content, "g");
  EXPECT_EQ(messages[7].role, "system");
}

TEST(ResponseRequests, ReadSettings) {
  const ResponseRequest read = read_response_request(R"({"input": "a", "max_output_tokens": 7, "temperature": 0.5,
    "top_p": 0.9, "seed": 3, "stream": true, "stream_options": {"include_obfuscation": false}, "store": false,
    "include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2,
    "previous_response_id": "resp_1", "truncation": "disabled", "reasoning": {"effort": null, "summary": "auto"},
    "background": false, "metadata": {"a": "b"}, "user": "u", "text": {"verbosity": "low"}})");
  EXPECT_EQ(read.chat.settings.max_tokens, 7U);
  EXPECT_EQ(read.chat.settings.temperature, 0.5F);
  EXPECT_EQ(read.chat.settings.top_log_probabilities, 2U);
  EXPECT_TRUE(read.chat.settings.log_probabilities);
  EXPECT_EQ(read.previous_response_id, "resp_1");
  EXPECT_TRUE(read.is_streamed);
  EXPECT_FALSE(read.is_stored);
  EXPECT_EQ(read.input.front().item->json, "") << "it is not kept";
  const Json repeated = Json::parse("{" + read.repeated.substr(1) + "}");
  EXPECT_EQ(repeated["metadata"], Json::parse(R"({"a": "b"})"));
  EXPECT_EQ(repeated["max_output_tokens"], 7);
  EXPECT_EQ(repeated["instructions"], nullptr);
  EXPECT_EQ(repeated["tools"], Json::array());
  EXPECT_EQ(repeated["tool_choice"], "auto");
}

// A line of a stream ends at a newline.
TEST(ResponseRequests, AreRepeatedInOneLine) {
  const ResponseRequest read = read_response_request(
      "{\"input\": \"a\",\r\n\"instructions\": \"b\\nc\",\n\"tools\": "
      "[\n{\"type\": \"function\",\r\n\"name\": \"f\"}]}");
  EXPECT_EQ(read.repeated.find_first_of("\r\n"), std::string::npos) << read.repeated;
  const Json repeated = Json::parse("{" + read.repeated.substr(1) + "}");
  EXPECT_EQ(repeated["instructions"], "b\nc");
  EXPECT_EQ(repeated["tools"][0]["name"], "f");
}

TEST(ResponseRequests, ReadTheFormOfAnAnswer) {
  const auto read = [](const std::string& format) {
    return read_response_request(R"({"input": "a", "text": {"format": )" + format + "}}");
  };
  const ResponseRequest schema =
      read(R"({"type": "json_schema", "name": "n", "strict": true, "schema": {"z": 1, "a": 2}})");
  EXPECT_EQ(schema.chat.settings.constraint.kind, OutputConstraint::Kind::json_schema);
  EXPECT_EQ(schema.chat.settings.constraint.text, R"({"z": 1, "a": 2})");  // in order
  EXPECT_EQ(schema.form_member, "text.format");
  EXPECT_EQ(read(R"({"type": "json_object"})").chat.settings.constraint.kind, OutputConstraint::Kind::json_object);
  EXPECT_EQ(read(R"({"type": "text"})").chat.settings.constraint.kind, OutputConstraint::Kind::none);
}

TEST(ResponseRequests, ReadTools) {
  const std::string tools = R"("tools": [{"type": "function", "name": "f", "description": "d", "strict": true,
    "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}, {"type": "function", "name": "g", "parameters": null}])";
  const auto choose = [&](const std::string& choice) {
    return read_response_request(R"({"input": "a", )" + tools + choice + "}").chat.options;
  };
  const ChatOptions automatic = choose("");
  EXPECT_EQ(automatic.tool_choice, ToolChoice::automatic);
  const std::vector<generation::ToolFunction> functions = generation::tool_functions(automatic.tools);
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].parameters, R"({"type": "object", "properties": {"z": {}, "a": {}}})");
  EXPECT_EQ(functions[1].parameters, "");
  EXPECT_EQ(Json::parse(automatic.tools)[0]["function"]["description"], "d");
  EXPECT_FALSE(generation::offers_tools(choose(R"(, "tool_choice": "none")")));
  const ChatOptions required = choose(R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  EXPECT_EQ(required.tool_choice, ToolChoice::required);
  EXPECT_FALSE(required.allows_several_calls);
  EXPECT_EQ(choose(R"(, "tool_choice": {"type": "function", "name": "g"})").tool_name, "g");
  const ChatOptions allowed = choose(
      R"(, "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]})");
  EXPECT_EQ(allowed.tool_choice, ToolChoice::required);
  EXPECT_EQ(allowed.tool_name, "");
  ASSERT_EQ(generation::tool_functions(allowed.tools).size(), 1U);
  EXPECT_EQ(generation::tool_functions(allowed.tools)[0].parameters, functions[0].parameters);
  const ResponseRequest grouped = read_response_request(R"({"input": "a", "tools": [{"type": "function", "name": "f"},
    {"type": "namespace", "name": "agents", "description": "d", "tools": [{"type": "function", "name": "spawn",
     "parameters": {"z": 1, "a": 2}}, {"type": "function", "name": "stop"}]}]})");
  EXPECT_THAT(grouped.functions,
              ElementsAre(testing::Pair("f", ""), testing::Pair("spawn", "agents"), testing::Pair("stop", "agents")));
  EXPECT_EQ(generation::tool_functions(grouped.chat.options.tools).at(1).parameters, R"({"z": 1, "a": 2})");
}

TEST(ResponseRequests, FindItemsByReference) {
  const ResponseRequest read = read_response_request(R"({"input": [{"type": "item_reference", "id": "msg_1"},
    {"id": "msg_2"}, {"role": "user", "content": "a"}]})");
  ASSERT_EQ(read.input.size(), 3U);
  EXPECT_EQ(read.input[0].reference, "msg_1");
  EXPECT_EQ(read.input[0].item, nullptr);
  EXPECT_EQ(read.input[1].reference, "msg_2");
  EXPECT_EQ(read.input[1].place, "input[1]");
  EXPECT_NE(read.input[2].item, nullptr);
}

TEST(ResponseRequests, AreRefusedByName) {
  struct {
    const char *members, *reason;
  } const cases[]{
      {R"("model": "m")", "input is missing"},
      {R"("input": 3)", "input is neither a text nor a list of items"},
      {R"("input": [3])", "input[0] is no object"},
      {R"("input": [{"type": "computer_call"}])",
       "input[0].type is 'computer_call'; accepted: message, function_call, function_call_output, reasoning, "
       "item_reference"},
      {R"("input": [{"role": "king", "content": "a"}])",
       "input[0].role is 'king'; accepted: user, assistant, system, developer"},
      {R"("input": [{"role": "user"}])", "input[0].content is missing"},
      {R"("input": [{"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}])",
       "input[0].content[0].type is 'input_image'; accepted: input_text, output_text, refusal"},
      {R"("input": [{"role": "user", "content": [{"type": "input_text"}]}])", "input[0].content[0].text is missing"},
      {R"("input": [{"type": "function_call", "name": "f", "arguments": "{}"}])", "input[0].call_id is missing"},
      {R"("input": [{"type": "function_call_output", "call_id": "1"}])", "input[0].output is missing"},
      {R"("input": [{"type": "item_reference"}])", "input[0].id is missing"},
      {R"("input": "a", "reasoning": {"mode": "pro"})", "reasoning.mode: accepted: standard"},
      {R"("input": "a", "reasoning": {"effort": "huge"})",
       "reasoning.effort is 'huge'; accepted: none, minimal, low, medium, high, xhigh"},
      {R"("input": "a", "background": true)",
       "background: responses are generated while the client waits; accepted: false"},
      {R"("input": "a", "conversation": "c")", "conversation: accepted is previous_response_id"},
      {R"("input": "a", "prompt": {"id": "p"})", "prompt: prompts are not stored here"},
      {R"("input": "a", "truncation": "auto")", "truncation is 'auto'; accepted: disabled"},
      {R"("input": "a", "include": ["all"])", "include has 'all'; accepted: message.output_text.logprobs"},
      {R"("input": "a", "metadata": {"a": 1})", "metadata.a is no text"},
      {R"("input": "a", "max_output_tokens": 0)", "max_output_tokens is no whole number from 1"},
      {R"("input": "a", "top_logprobs": 21)", "top_logprobs is no whole number from 0 to 20"},
      {R"("input": "a", "stream_options": {})", R"(stream_options is for answers with "stream": true)"},
      {R"("input": "a", "temperature": -1)", "temperature is -1; accepted: 0 to 100"},
      {R"("input": "a", "text": {"format": {"type": "xml"}})",
       "text.format.type is 'xml'; accepted: text, json_object, json_schema"},
      {R"("input": "a", "text": {"format": {"type": "json_schema", "name": "n"}})", "text.format.schema is missing"},
      {R"("input": "a", "tools": [{"type": "web_search"}])",
       "tools[0].type is 'web_search'; accepted: function, namespace"},
      {R"("input": "a", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]}])",
       "tools[0].tools[0].type is 'custom'; accepted: function"},
      {R"("input": "a", "tools": [{"type": "function", "name": "a"}, {"type": "namespace", "name": "n",
         "tools": [{"type": "function", "name": "a"}]}])",
       "tools[1].tools[0] has the name 'a' of another tool"},
      {R"("input": "a", "tools": [{"type": "mcp", "server_label": "a"}])", "tools[0].type is 'mcp'"},
      {R"("input": "a", "tools": [{"type": "function"}])", "tools[0].name is missing"},
      {R"("input": "a", "tools": [{"type": "function", "name": "a b"}])", "tools[0].name is 'a b'; accepted: 1 to 64"},
      {R"("input": "a", "tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "a"}])",
       "tools[1] has the name 'a' of another tool"},
      {R"("input": "a", "tool_choice": "required")", "tool_choice is 'required', and no tools are there"},
      {R"("input": "a", "tools": [{"type": "function", "name": "a"}], "tool_choice": {"type": "function", "name": "b"})",
       "tool_choice.name is 'b', which is none of the tools"},
      {R"("input": "a", "tool_choice": {"type": "web_search"})",
       "tool_choice.type is 'web_search'; accepted: function, allowed_tools"},
      {R"("input": "a", "tools": [{"type": "function", "name": "a"}], "tool_choice": {"type": "allowed_tools"})",
       "tool_choice.tools is no list of at least one tool"},
      {R"("input": "a", "tools": [{"type": "function", "name": "a"}], "tool_choice": {"type": "allowed_tools",
         "tools": [{"type": "function", "name": "b"}]})",
       "tool_choice.tools[0].name is 'b', which is none of the tools"},
      {R"("input": "a", "colour": 1)", "colour is not known; accepted: "},
  };

  for (const auto& [members, reason] : cases) {
    const std::string body = std::string("{") + members + "}";
    EXPECT_THAT(refusal([&] { (void)read_response_request(body); }), HasSubstr(reason)) << body;
  }
}

// As Codex 0.171 writes it: the whole conversation each time, kept nowhere.
TEST(ResponseRequests, TakeThoseOfCodex) {
  const ResponseRequest read = read_response_request(R"({"model": "m", "stream": true, "input": [
      {"type": "message", "id": "msg_1", "role": "developer", "content": [{"type": "input_text", "text": "You are"}]},
      {"type": "message", "id": "msg_2", "role": "developer", "content": [{"type": "input_text", "text": "## Skills"}]},
      {"type": "message", "id": "msg_3", "role": "user", "content": [{"type": "input_text", "text": "<environment>"}]},
      {"type": "message", "id": "msg_4", "role": "user", "content": [{"type": "input_text", "text": "list the files"}]},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "ls"}],
       "encrypted_content": null},
      {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "call_1"},
      {"type": "function_call_output", "call_id": "call_1", "output": "a"}],
    "tools": [
      {"type": "function", "name": "exec_command", "description": "Runs a command in a PTY", "strict": false,
       "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"],
                      "additionalProperties": false}},
      {"type": "namespace", "name": "multi_agent_v1", "description": "Tools for sub-agents.", "tools": [
       {"type": "function", "name": "close_agent", "description": "Close an agent", "strict": false,
        "parameters": {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"],
                       "additionalProperties": false}}]}],
    "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"summary": "auto"}, "store": false,
    "include": ["reasoning.encrypted_content"], "prompt_cache_key": "01a2", "client_metadata": {"thread_id": "01a2"}})");
  EXPECT_FALSE(read.is_stored);
  EXPECT_TRUE(read.is_streamed);
  EXPECT_EQ(read.functions.at("close_agent"), "multi_agent_v1");
  const std::vector<ChatMessage> messages = conversation_of(read.instructions, items_of(read));
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0].content, "You are\n\n## Skills");
  EXPECT_EQ(messages[3].reasoning, "ls");
  EXPECT_EQ(messages[3].tool_calls.at(0).arguments, R"({"cmd":"ls"})");
  EXPECT_EQ(messages[4].name, "exec_command");
}

// What asks for nothing is accepted.
TEST(ResponseRequests, TakeWhatChangesNothing) {
  for (const char* member :
       {R"("conversation": null)", R"("prompt": null)", R"("reasoning": null)", R"("text": null)", R"("tools": [])",
        R"("tool_choice": "auto")", R"("reasoning": {"mode": "standard", "context": "auto"})", R"("include": [])",
        R"("max_tool_calls": 3)", R"("service_tier": "auto")", R"("prompt_cache_key": "a")",
        R"("client_metadata": {"a": "b"})", R"("metadata": null)", R"("stream_options": null)"}) {
    EXPECT_EQ(refusal([&] { (void)read_response_request(std::string(R"({"input": "a", )") + member + "}"); }),
              "nothing was refused")
        << member;
  }
}

}  // namespace
}  // namespace gpux::server::responses
