// Responses of OpenAI's Responses API, whole and as events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "server/event_stream.h"
#include "server/protocols/responses/answers.h"

namespace gpux::server::responses {
namespace {

using test::named_events;
using test::types_of;
using testing::ElementsAre;
using Json = nlohmann::json;

const ResponseHead head{.id = "resp_1",
                        .created = 7,
                        .model = "m",
                        .repeated = std::make_shared<const std::string>(R"(,"metadata":{})"),
                        .is_stored = true};
const AnswerUsage usage{.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 4, .reasoning_tokens = 1};

bool keep_all(const std::string& /*json*/, const ConversationItems& /*output*/) {
  return true;
}

AnswerDelta text_part(const std::string& text) {
  return {.text = text};
}

TokenScore score(const std::string& token) {
  return {.chosen = {.token = 1, .log_probability = -0.5F, .bytes = token}, .most_probable = {}};
}

std::string streamed(const std::vector<AnswerDelta>& parts, const KeepResponse& keep = keep_all) {
  const auto events = response_events(head, keep, nullptr);
  std::string out;
  for (const AnswerDelta& part : parts) {
    events->hold(part);
    events->append(out, part);
  }
  events->append_end(out, usage);
  return out;
}

// Ids and times differ from one response to the next.
Json without_ids(Json response) {
  response["completed_at"] = nullptr;
  for (Json& item : response["output"]) item["id"] = "";
  return response;
}

const std::vector<AnswerDelta> thought_and_called{
    {.is_first = true, .reasoning = "h"},
    {.reasoning = "m"},
    text_part("so"),
    text_part(" I ask"),
    {.tool_calls = {{.index = 0, .id = "c1", .name = "f", .arguments = R"({"a":)"}}},
    {.tool_calls = {{.index = 0, .id = {}, .name = {}, .arguments = "1}"}}},
    {.tool_calls = {{.index = 1, .id = "c2", .name = "g", .arguments = "{}"}}},
    {.finish_reason = "tool_calls"},
};

TEST(ResponseAnswers, HaveTheirItemsInOrder) {
  const Json response = Json::parse(response_json(head, thought_and_called, usage, keep_all));
  EXPECT_EQ(response["id"], "resp_1");
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["error"], nullptr);
  EXPECT_EQ(response["incomplete_details"], nullptr);
  EXPECT_EQ(response["store"], true);
  EXPECT_EQ(response["metadata"], Json::object());
  EXPECT_EQ(response["usage"], Json::parse(R"({"input_tokens": 5, "output_tokens": 4, "total_tokens": 9,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 1}})"));
  EXPECT_EQ(without_ids(response)["output"], Json::parse(R"([
    {"id": "", "type": "reasoning", "status": "completed", "summary": [],
     "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"id": "", "type": "message", "status": "completed", "role": "assistant",
     "content": [{"type": "output_text", "text": "so I ask", "annotations": [], "logprobs": []}]},
    {"id": "", "type": "function_call", "status": "completed", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
    {"id": "", "type": "function_call", "status": "completed", "call_id": "c2", "name": "g", "arguments": "{}"}])"));
}

TEST(ResponseAnswers, AreTheSameWholeAndStreamed) {
  const std::vector<std::vector<AnswerDelta>> answers{
      thought_and_called,
      {text_part("a"), {.text = "b", .finish_reason = "stop"}},
      {text_part("a"),
       {.tool_calls = {{.id = "c", .name = "f", .arguments = "{}"}}},
       text_part("b"),
       {.finish_reason = "length"}},
      {{.finish_reason = "stop"}},
      {{.reasoning = "only"}, {.finish_reason = "stop"}},
      {{.reasoning = "only"}, {.finish_reason = "length"}},
      {{.text = "a", .scores = {score("a")}},
       {.scores = {score("b")}},
       {.text = "bc", .scores = {score("c")}, .finish_reason = "stop"}},
  };
  for (const auto& parts : answers) {
    const std::vector<Json> events = named_events(streamed(parts));
    const Json whole = Json::parse(response_json(head, parts, usage, keep_all));
    EXPECT_EQ(without_ids(events.back()["response"]), without_ids(whole));
    EXPECT_EQ(events.back()["type"], "response." + whole["status"].get<std::string>());
    // The items of the events are those of the response.
    std::vector<Json> done;
    for (const Json& event : events) {
      if (event["type"] == "response.output_item.done") done.push_back(event["item"]);
    }
    EXPECT_EQ(Json(done), events.back()["response"]["output"]);
  }
}

// A token may end the arguments of a call and begin a text.
TEST(ResponseAnswers, HaveTextBehindTheCallThatItFollows) {
  const std::vector<AnswerDelta> parts{
      {.tool_calls = {{.index = 0, .id = "c1", .name = "f", .arguments = R"({"a":)"}}},
      {.text = "so", .tool_calls = {{.index = 0, .id = {}, .name = {}, .arguments = "1}"}}},
      {.finish_reason = "tool_calls"},
  };
  const Json output = Json::parse(response_json(head, parts, usage, keep_all))["output"];
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[0]["arguments"], R"({"a":1})");
  EXPECT_EQ(output[1]["content"][0]["text"], "so");
}

TEST(ResponseAnswers, HaveTheirEventsInOrder) {
  const std::vector<Json> events = named_events(streamed(thought_and_called));
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  EXPECT_THAT(
      types_of(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
                  "response.content_part.done", "response.output_item.done", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.output_item.added", "response.function_call_arguments.delta",
                  "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], Json::array());
  EXPECT_EQ(events[0]["response"]["usage"], nullptr);
  std::string arguments, text;
  for (const Json& event : events) {
    if (event["type"] == "response.function_call_arguments.delta" && event["output_index"] == 2) {
      arguments += event["delta"];
    }
    if (event["type"] == "response.output_text.delta") text += event["delta"];
    if (event["type"] == "response.output_text.done") {
      EXPECT_EQ(event["text"], "so I ask");
    }
    if (event["type"] == "response.function_call_arguments.done" && event["output_index"] == 2) {
      EXPECT_EQ(event["arguments"], R"({"a":1})");
      EXPECT_EQ(event["name"], "f");
    }
    if (!event.contains("item_id")) continue;
    EXPECT_EQ(event["item_id"], events.back()["response"]["output"].at(event["output_index"].get<std::size_t>())["id"]);
  }
  EXPECT_EQ(arguments, R"({"a":1})");
  EXPECT_EQ(text, "so I ask");
}

TEST(ResponseAnswers, NameTheNamespaceOfACall) {
  ResponseHead own = head;
  own.functions = {{"f", "agents"}, {"g", ""}};
  const Json output = Json::parse(response_json(own, thought_and_called, usage, keep_all))["output"];
  EXPECT_EQ(output[2]["namespace"], "agents");
  EXPECT_FALSE(output[3].contains("namespace"));
}

TEST(ResponseAnswers, SayThatTheyWereCutOff) {
  const Json response =
      Json::parse(response_json(head, {text_part("a"), {.finish_reason = "length"}}, usage, keep_all));
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"], Json::parse(R"({"reason": "max_output_tokens"})"));
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  EXPECT_EQ(response["completed_at"], nullptr);
}

TEST(ResponseAnswers, HaveScoresOfTheirTextAlone) {
  const std::vector<AnswerDelta> parts{
      {.reasoning = "hm", .scores = {score("hm")}},
      {.text = "a", .scores = {score("a")}},
      {.scores = {score("b")}},  // held back
      {.text = "bc", .scores = {score("c")}},
      {.scores = {score("stop")}, .finish_reason = "stop"},
  };
  const Json whole = Json::parse(response_json(head, parts, usage, keep_all));
  const auto tokens = [](const Json& logprobs) {
    std::vector<std::string> all;
    for (const Json& one : logprobs) all.push_back(one["token"]);
    return all;
  };
  EXPECT_THAT(tokens(whole["output"][1]["content"][0]["logprobs"]), ElementsAre("a", "b", "c", "stop"));
  std::vector<std::string> of_deltas;
  for (const Json& event : named_events(streamed(parts))) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const std::string& token : tokens(event["logprobs"])) of_deltas.push_back(token);
  }
  EXPECT_THAT(of_deltas, ElementsAre("a", "b", "c", "stop"));
}

TEST(ResponseAnswers, SayWhetherTheyAreKept) {
  std::string kept;
  ConversationItems items;
  const auto keep = [&](const std::string& json, ConversationItems output) {
    kept = json;
    items = std::move(output);
    return true;
  };
  const std::string answered = response_json(head, thought_and_called, usage, keep);
  EXPECT_EQ(kept, answered);
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(items[0]->message.reasoning, "hm");
  EXPECT_EQ(items[1]->message.content, "so I ask");
  EXPECT_EQ(items[2]->message.tool_calls.at(0).arguments, R"({"a":1})");
  EXPECT_EQ(Json::parse(items[2]->json), Json::parse(answered)["output"][2]);
  const auto refuse = [](const std::string&, const ConversationItems&) { return false; };
  EXPECT_EQ(Json::parse(response_json(head, thought_and_called, usage, refuse))["store"], false);
  EXPECT_EQ(named_events(streamed(thought_and_called, refuse)).back()["response"]["store"], false);
  // Without memory for its items it is answered, and not kept.
  const auto memory = std::make_shared<MemoryBudget>(10);
  EXPECT_EQ(Json::parse(response_json(head, thought_and_called, usage, keep, memory))["store"], false);
}

TEST(ResponseAnswers, TakeMemoryForWhatTheLastEventsRepeat) {
  const auto memory = std::make_shared<MemoryBudget>(1000);
  {
    const auto events = response_events(head, keep_all, memory);
    events->hold(text_part(std::string(100, 'a')));
    EXPECT_GE(memory->held_bytes(), 400U);
    EXPECT_THROW(events->hold(text_part(std::string(1000, 'a'))), Error);
  }
  EXPECT_EQ(memory->held_bytes(), 0U);
}

TEST(ResponseAnswers, SayThatTheyFailed) {
  const auto events = response_events(head, keep_all, nullptr);
  std::string out;
  events->append(out, text_part("a"));
  events->append_error(out, Error(ErrorCode::interrupted, "the server is going down"));
  const Json last = named_events(out).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"],
            Json::parse(R"({"code": "server_error", "message": "the server is going down"})"));
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "a");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
}

}  // namespace
}  // namespace gpux::server::responses
