// gpux serve with a tiny decoder, as Anthropic's clients meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/chat_model.h"
#include "server/event_stream.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::HasSubstr;

const Json weather = Json::parse(R"({"name": "weather", "description": "of a place", "input_schema": {"type": "object",
  "properties": {"place": {"type": "string", "maxLength": 5}}, "required": ["place"], "additionalProperties": false}})");

class ServeMessages : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    gpux_ = new Program;
    store_chat_model(*gpux_, "chatty", plain_template);
    const std::string messages = "{%- for m in messages -%}{{ m.content }}{%- endfor -%}";
    store_chat_model(*gpux_, "thinks", "{#- <think> </think> -#}" + messages + "<think>\n");
    store_chat_model(*gpux_, "may_think",
                     "{#- <think> </think> -#}" + messages +
                         "{%- if enable_thinking is not defined or enable_thinking -%}<think>\n{%- endif -%}");
    server_ = new Serving(*gpux_, {"chatty", "thinks", "may_think", "--no-grpc", "--strict-requests"});
  }

  static void TearDownTestSuite() {
    delete server_;
    delete gpux_;
  }

  static Json request(const std::string& text, int max_tokens = 24) {
    return {{"model", "chatty"},
            {"messages", {{{"role", "user"}, {"content", text}}}},
            {"temperature", 0},
            {"max_tokens", max_tokens}};
  }

  static Json answer(const Json& body, int status = 200) {
    return server_->json(post("/v1/messages", body.dump(), "anthropic-version: 2023-06-01\r\n"), status);
  }

  static std::vector<Json> streamed(Json body) {
    body["stream"] = true;
    const Answered answered = server_->ask(post("/v1/messages?beta=true", body.dump()));
    EXPECT_EQ(answered.status, 200) << answered.body;
    EXPECT_EQ(answered.header("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_TRUE(answered.complete);
    return named_events<Json>(answered.body);
  }

  static std::string refusal(const Json& body, int status = 400) {
    const Json error = answer(body, status);
    EXPECT_EQ(error.at("type"), "error");
    EXPECT_EQ(error.at("error").at("type"), status == 404 ? "not_found_error" : "invalid_request_error");
    return error.at("error").at("message");
  }

  static Program* gpux_;
  static Serving* server_;
};

Program* ServeMessages::gpux_ = nullptr;
Serving* ServeMessages::server_ = nullptr;

std::string text_of(const std::vector<Json>& events) {
  std::string text;
  for (const Json& event : events) {
    if (event["type"] == "content_block_delta" && event["delta"]["type"] == "text_delta") {
      text += event["delta"]["text"];
    }
  }
  return text;
}

TEST_F(ServeMessages, AnswerWholeAsStreamedAndAsChatsDo) {
  Json body = request("say something");
  body["system"] = Json::parse(R"([{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}])");
  const Json whole = answer(body);
  EXPECT_EQ(whole["type"], "message");
  ASSERT_EQ(whole["content"].size(), 1);
  const std::string text = whole["content"][0]["text"];
  const std::vector<Json> events = streamed(body);
  EXPECT_EQ(text_of(events), text);
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], whole["stop_reason"]);
  EXPECT_EQ(events[events.size() - 2]["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
  const Json chat{
      {"model", "chatty"},
      {"messages", {{{"role", "system"}, {"content", "be brief"}}, {{"role", "user"}, {"content", "say something"}}}},
      {"temperature", 0},
      {"max_tokens", 24}};
  const Json same = server_->json(post("/v1/chat/completions", chat.dump()));
  // Nobody asked it to think, which the template knows.
  EXPECT_NE(same["usage"]["prompt_tokens"], 0);
  Json told = chat;
  told["chat_template_kwargs"] = {{"enable_thinking", false}};
  EXPECT_EQ(server_->json(post("/v1/chat/completions", told.dump()))["choices"][0]["message"]["content"], text);
  const Json counted =
      server_->json(post("/v1/messages/count_tokens",
                         Json{{"messages", body["messages"]}, {"system", body["system"]}, {"model", "chatty"}}.dump()));
  EXPECT_EQ(counted["input_tokens"], events[0]["message"]["usage"]["input_tokens"]);
  EXPECT_EQ(counted["input_tokens"].get<int>(),
            whole["usage"]["input_tokens"].get<int>() + whole["usage"]["cache_read_input_tokens"].get<int>());
}

TEST_F(ServeMessages, CallToolsWhereTheyMust) {
  Json body = request("how is it there?", 500);
  body["tools"] = Json::array({weather});
  body["tool_choice"] = {{"type", "tool"}, {"name", "weather"}};
  body["temperature"] = 1;
  Json whole = Json::object();
  for (int i = 0; i < 20 && whole.value("stop_reason", "") != "tool_use"; ++i) whole = answer(body);
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  const Json& call = whole["content"].back();
  ASSERT_EQ(call["type"], "tool_use") << whole;
  EXPECT_EQ(call["name"], "weather");
  EXPECT_TRUE(call["input"]["place"].is_string());
  Json next = request("how is it there?");
  next["messages"].push_back({{"role", "assistant"}, {"content", whole["content"]}});
  next["messages"].push_back(
      {{"role", "user"}, {"content", {{{"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", "12"}}}}});
  EXPECT_EQ(answer(next)["type"], "message");
}

TEST_F(ServeMessages, ThinkWhereTheyAreTold) {
  Json body = request("hm", 40);
  body["model"] = "may_think";
  EXPECT_EQ(answer(body)["content"][0]["type"], "text");
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 1024}};
  const Json thought = answer(body);
  EXPECT_EQ(thought["content"][0]["type"], "thinking");
  EXPECT_FALSE(thought["content"][0]["thinking"].get<std::string>().empty());
  body["thinking"] = {{"type", "disabled"}};
  EXPECT_EQ(answer(body)["content"][0]["type"], "text");
  body["model"] = "thinks";
  EXPECT_THAT(refusal(body), HasSubstr("thinking is 'none', and the model always thinks before it answers"));
  body.erase("thinking");
  EXPECT_EQ(answer(body)["content"][0]["type"], "thinking");
  body["output_config"] = {{"effort", "low"}};
  EXPECT_THAT(refusal(body), HasSubstr("output_config.effort is 'low', and the model has no levels of thinking"));
  body["output_config"] = {{"effort", "high"}};
  EXPECT_EQ(answer(body)["content"][0]["type"], "thinking");
}

TEST_F(ServeMessages, EndWhereTheyAreTold) {
  Json body = request("go on");
  const std::string text = answer(body)["content"][0]["text"];
  ASSERT_GE(text.size(), 4U);
  const std::string stop = text.substr(text.size() / 2, 2);
  body["stop_sequences"] = {stop, "never there"};
  const Json stopped = answer(body);
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], stop);
  EXPECT_EQ(text_of(streamed(body)), text.substr(0, text.find(stop)));
  // More than the context has room for: as many as it has.
  Json long_answer = request("go on", 1'000'000);
  long_answer["temperature"] = 1;
  const Json full = answer(long_answer);
  EXPECT_THAT(full["stop_reason"], testing::AnyOf("model_context_window_exceeded", "end_turn"));
}

// As a chat with continue_final_message is.
TEST_F(ServeMessages, ContinueALastMessageOfTheAssistant) {
  Json body = request("go on");
  body["messages"].push_back({{"role", "assistant"}, {"content", "so"}});
  const Json chat{
      {"model", "chatty"}, {"messages", body["messages"]},   {"temperature", 0},
      {"max_tokens", 24},  {"continue_final_message", true}, {"chat_template_kwargs", {{"enable_thinking", false}}}};
  const Json same = server_->json(post("/v1/chat/completions", chat.dump()));
  EXPECT_EQ(answer(body)["content"][0]["text"], same["choices"][0]["message"]["content"]);
  EXPECT_NE(answer(body)["content"], answer(request("go on"))["content"]);
}

TEST_F(ServeMessages, HaveTheFormThatIsAskedFor) {
  Json body = request("who?", 300);
  body["output_config"] = Json::parse(R"({"format": {"type": "json_schema", "schema": {"type": "object",
    "properties": {"age": {"type": "integer", "minimum": 10, "maximum": 99}}, "required": ["age"],
    "additionalProperties": false}}})");
  body["temperature"] = 1;
  // It may think first, and be cut off there.
  Json shaped = Json::object();
  for (int i = 0; i < 20 && shaped.value("stop_reason", "") != "end_turn"; ++i) shaped = answer(body);
  ASSERT_EQ(shaped["stop_reason"], "end_turn") << shaped;
  EXPECT_EQ(Json::parse(shaped["content"].back()["text"].get<std::string>()).size(), 1) << shaped;
}

TEST_F(ServeMessages, AreRefusedByName) {
  Json body = request("a");
  body["stop_sequences"] = {""};
  EXPECT_THAT(refusal(body), HasSubstr("stop_sequences has a text of 0 bytes"));
  body = request("a");
  body["model"] = "none";
  EXPECT_THAT(refusal(body, 404), HasSubstr("there is no model 'none'"));
  EXPECT_THAT(refusal(request(std::string(5000, 'a'))), HasSubstr("context"));
  const Json method = server_->json(get("/v1/messages"), 405);
  EXPECT_EQ(method["type"], "error");
}

TEST(ServeMessagesWithKeys, TakeTheKeyOfAnthropicsClients) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const auto keys = gpux.folder().write("keys.txt", "first-key-123\n");
  const Serving server(gpux, {"chatty", "--no-grpc", "--api-key-file", keys.string()});
  const std::string body = R"({"max_tokens": 2, "messages": [{"role": "user", "content": "a"}]})";
  EXPECT_EQ(server.json(post("/v1/messages", body, "x-api-key: first-key-123\r\n"))["type"], "message");
  const Json error = server.json(post("/v1/messages", body, "x-api-key: wrong\r\n"), 401);
  EXPECT_EQ(error, Json::parse(R"({"type": "error", "error": {"type": "authentication_error",
    "message": "the API key is not accepted"}})"));
}

}  // namespace
}  // namespace gpux::test
