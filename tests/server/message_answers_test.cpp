// Messages of Anthropic's Messages API, whole and as events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "server/event_stream.h"
#include "server/protocols/anthropic/answers.h"
#include "server/protocols/error_answers.h"

namespace gpux::server::anthropic {
namespace {

using test::named_events;
using test::types_of;
using testing::ElementsAre;
using Json = nlohmann::json;

const MessageHead head{.id = "msg_1", .model = "m", .max_tokens = 4};
const AnswerUsage usage{.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 4};

const std::vector<AnswerDelta> thought_and_called{
    {.is_first = true, .reasoning = "h"},
    {.reasoning = "m"},
    {.text = "so"},
    {.text = " I ask"},
    {.tool_calls = {{.index = 0, .id = "c1", .name = "f", .arguments = R"({"a":)"}}},
    {.tool_calls = {{.index = 0, .id = {}, .name = {}, .arguments = "1}"}}},
    {.tool_calls = {{.index = 1, .id = "c2", .name = "g", .arguments = ""}}},
    {.finish_reason = "tool_calls"},
};

std::string streamed(const std::vector<AnswerDelta>& parts, const MessageHead& of = head) {
  const auto events = message_events(of, 5);
  std::string out;
  for (const AnswerDelta& part : parts) events->append(out, part);
  events->append_end(out, usage);
  return out;
}

// As clients put a streamed message together.
Json joined(const std::vector<Json>& events) {
  Json message;
  std::vector<std::string> inputs;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "message_start") message = event["message"];
    if (type == "content_block_start") {
      message["content"].push_back(event["content_block"]);
      inputs.emplace_back();
      EXPECT_EQ(event["index"], message["content"].size() - 1);
    }
    if (type == "content_block_delta") {
      const Json& delta = event["delta"];
      Json& block = message["content"].at(event["index"].get<std::size_t>());
      if (delta["type"] == "text_delta")
        block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
      if (delta["type"] == "thinking_delta") {
        block["thinking"] = block["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
      }
      if (delta["type"] == "input_json_delta") inputs.back() += delta["partial_json"];
    }
    if (type == "content_block_stop" && !inputs.back().empty()) {
      message["content"].at(event["index"].get<std::size_t>())["input"] = Json::parse(inputs.back());
    }
    if (type == "message_delta") {
      message.update(event["delta"]);
      message["usage"] = event["usage"];
    }
  }
  return message;
}

TEST(MessageAnswers, HaveTheirBlocksInOrder) {
  const Json message = Json::parse(message_json(head, thought_and_called, usage));
  EXPECT_EQ(message, Json::parse(R"({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
    "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "so I ask"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "g", "input": {}}],
    "stop_reason": "tool_use", "stop_sequence": null,
    "usage": {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 4}})"));
}

TEST(MessageAnswers, AreTheSameWholeAndStreamed) {
  const std::vector<std::vector<AnswerDelta>> answers{
      thought_and_called,
      {{.text = "a"}, {.text = "b", .finish_reason = "stop"}},
      {{.text = "a"},
       {.tool_calls = {{.id = "c", .name = "f", .arguments = "{}"}}},
       {.text = "b"},
       {.finish_reason = "length"}},
      {{.finish_reason = "stop"}},
      {{.text = "a"}, {.finish_reason = "stop", .stop_text = "\n"}},
  };
  for (const auto& parts : answers) {
    EXPECT_EQ(joined(named_events(streamed(parts))), Json::parse(message_json(head, parts, usage)));
    MessageHead hidden = head;
    hidden.shows_thinking = false;
    EXPECT_EQ(joined(named_events(streamed(parts, hidden))), Json::parse(message_json(hidden, parts, usage)));
  }
}

// A token may end the arguments of a call and begin a text.
TEST(MessageAnswers, HaveTextBehindTheCallThatItFollows) {
  const std::vector<AnswerDelta> parts{
      {.tool_calls = {{.index = 0, .id = "c1", .name = "f", .arguments = R"({"a":)"}}},
      {.text = "so", .tool_calls = {{.index = 0, .id = {}, .name = {}, .arguments = "1}"}}},
      {.finish_reason = "tool_calls"},
  };
  const Json message = Json::parse(message_json(head, parts, usage));
  EXPECT_EQ(message["content"], Json::parse(R"([{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                                                {"type": "text", "text": "so"}])"));
  EXPECT_EQ(joined(named_events(streamed(parts)))["content"], message["content"]);
}

TEST(MessageAnswers, HaveNoCallWithoutAnObject) {
  const auto content = [](const char* reason) {
    const std::vector<AnswerDelta> parts{
        {.tool_calls = {{.index = 0, .id = "c1", .name = "f", .arguments = R"({"a":)"}}}, {.finish_reason = reason}};
    return Json::parse(message_json(head, parts, usage))["content"][0];
  };
  EXPECT_EQ(content("length")["input"], Json::object());
  EXPECT_EQ(content("stop"), Json::parse(R"({"type": "text", "text": "{\"a\":"})"));
}

TEST(MessageAnswers, HaveTheirEventsInOrder) {
  const std::vector<Json> events = named_events(streamed(thought_and_called));
  EXPECT_THAT(types_of(events),
              ElementsAre("message_start", "content_block_start", "content_block_delta", "content_block_stop",
                          "content_block_start", "content_block_delta", "content_block_stop", "content_block_start",
                          "content_block_delta", "content_block_stop", "content_block_start", "content_block_stop",
                          "message_delta", "message_stop"));
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 5);
  EXPECT_EQ(events[0]["message"]["stop_reason"], nullptr);
}

TEST(MessageAnswers, SayWhyTheyEnded) {
  struct {
    AnswerDelta last;
    std::size_t max_tokens;
    const char* reason;
    Json stop_text;
  } const cases[]{
      {{.finish_reason = "stop"}, 4, "end_turn", nullptr},
      {{.finish_reason = "stop", .stop_text = "x"}, 4, "stop_sequence", "x"},
      {{.finish_reason = "length"}, 4, "max_tokens", nullptr},
      {{.finish_reason = "length"}, 5, "model_context_window_exceeded", nullptr},
      {{.finish_reason = "tool_calls", .stop_text = "x"}, 4, "tool_use", nullptr},
  };

  for (const auto& [last, max_tokens, reason, stop_text] : cases) {
    MessageHead own = head;
    own.max_tokens = max_tokens;
    const Json message = Json::parse(message_json(own, {last}, usage));
    EXPECT_EQ(message["stop_reason"], reason);
    EXPECT_EQ(message["stop_sequence"], stop_text);
  }
}

TEST(MessageAnswers, HaveErrorsInTheFormOfAnthropic) {
  struct {
    ErrorCode code;
    int status;
    const char* type;
  } const cases[]{
      {ErrorCode::invalid_input, 400, "invalid_request_error"}, {ErrorCode::not_found, 404, "not_found_error"},
      {ErrorCode::resource_exhausted, 429, "rate_limit_error"}, {ErrorCode::interrupted, 503, "overloaded_error"},
      {ErrorCode::deadline_exceeded, 504, "timeout_error"},     {ErrorCode::internal, 500, "api_error"},
  };

  for (const auto& [code, status, type] : cases) {
    const http::Response answer = error_response(Error(code, "why"), Protocol::anthropic);
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(Json::parse(answer.text), (Json{{"type", "error"}, {"error", {{"type", type}, {"message", "why"}}}}));
  }
  const auto events = message_events(head, 5);
  std::string out;
  events->append_error(out, Error(ErrorCode::interrupted, "why"));
  EXPECT_EQ(named_events(out).back()["error"]["type"], "overloaded_error");
}

}  // namespace
}  // namespace gpux::server::anthropic
