// gpux serve with a tiny decoder, as clients of OpenAI's Responses API meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/chat_model.h"
#include "server/event_stream.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::HasSubstr;

const Json weather = Json::parse(R"({"type": "function", "name": "weather", "description": "of a place", "strict": true,
  "parameters": {"type": "object", "properties": {"place": {"type": "string", "maxLength": 5}}, "required": ["place"],
                 "additionalProperties": false}})");

std::string forget(const std::string& path, const std::string& fields = {}) {
  return "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

// Ids and times differ from one response to the next.
Json without_ids(Json response) {
  for (const char* name : {"id", "created_at", "completed_at", "previous_response_id"}) response.erase(name);
  for (Json& item : response["output"]) {
    item.erase("id");
    item.erase("call_id");
  }
  // Of the prompt, more or less is there already.
  response["usage"].erase("input_tokens_details");
  return response;
}

class ServeResponses : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    gpux_ = new Program;
    store_chat_model(*gpux_, "chatty", plain_template);
    store_chat_model(*gpux_, "thinks",
                     "{#- <think> </think> -#}{%- for m in messages -%}{{ m.content }}{%- endfor -%}<think>\n");
    server_ = new Serving(*gpux_, {"chatty", "thinks", "--no-grpc", "--strict-requests"});
  }

  static void TearDownTestSuite() {
    delete server_;
    delete gpux_;
  }

  static Json request(const Json& input, int seed, int max_output_tokens = 24) {
    return {{"model", "chatty"},
            {"input", input},
            {"temperature", 1.5},
            {"seed", seed},
            {"max_output_tokens", max_output_tokens}};
  }

  static Json respond(const Json& body, int status = 200) {
    return server_->json(post("/v1/responses", body.dump()), status);
  }

  static std::vector<Json> streamed(Json body) {
    body["stream"] = true;
    const Answered answer = server_->ask(post("/v1/responses", body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_TRUE(answer.complete);
    return named_events<Json>(answer.body);
  }

  static std::string refusal(const Json& body, const std::string& param) {
    const Json error = respond(body, 400).at("error");
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    EXPECT_EQ(error.at("param"), param);
    return error.at("message");
  }

  static std::string text_of(const Json& response) {
    std::string text;
    for (const Json& item : response.at("output")) {
      if (item.at("type") == "message") text += item.at("content").at(0).at("text").get<std::string>();
    }
    return text;
  }

  static Program* gpux_;
  static Serving* server_;
};

Program* ServeResponses::gpux_ = nullptr;
Serving* ServeResponses::server_ = nullptr;

TEST_F(ServeResponses, AnswerWholeAsStreamedAndAsChatsDo) {
  for (int seed = 0; seed < 4; ++seed) {
    Json body = request("say something", seed);
    body["instructions"] = "be brief";
    const Json whole = respond(body);
    const std::vector<Json> events = streamed(body);
    EXPECT_EQ(without_ids(events.back()["response"]), without_ids(whole)) << seed;
    std::string text;
    for (const Json& event : events) {
      if (event["type"] == "response.output_text.delta") text += event["delta"];
    }
    EXPECT_EQ(text, text_of(whole));
    const Json chat{
        {"model", "chatty"},
        {"messages", {{{"role", "system"}, {"content", "be brief"}}, {{"role", "user"}, {"content", "say something"}}}},
        {"temperature", 1.5},
        {"seed", seed},
        {"max_tokens", 24}};
    const Json answer = server_->json(post("/v1/chat/completions", chat.dump()));
    EXPECT_EQ(answer["choices"][0]["message"]["content"], text);
    EXPECT_EQ(answer["usage"]["prompt_tokens"], whole["usage"]["input_tokens"]);
    EXPECT_EQ(answer["choices"][0]["finish_reason"] == "length", whole["status"] == "incomplete");
  }
}

TEST_F(ServeResponses, ThinkBeforeTheyAnswer) {
  Json body = request("hm", 1, 40);
  body["model"] = "thinks";
  const Json whole = respond(body);
  ASSERT_EQ(whole["output"][0]["type"], "reasoning") << whole;
  EXPECT_FALSE(whole["output"][0]["content"][0]["text"].get<std::string>().empty());
  EXPECT_GT(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(without_ids(streamed(body).back()["response"]), without_ids(whole));
  // Where the template can be told how much.
  body["model"] = "chatty";
  const Json plain = respond(body);
  body["reasoning"] = {{"effort", "low"}};
  const Json told = respond(body);
  EXPECT_GT(told["usage"]["input_tokens"], plain["usage"]["input_tokens"]) << "<thinks true>";
  EXPECT_EQ(told["reasoning"]["effort"], "low");
}

TEST_F(ServeResponses, CallToolsWhereTheyMust) {
  Json body = request("how is it there?", 1, 300);
  body["tools"] = Json::array({weather});
  body["tool_choice"] = "required";
  body["parallel_tool_calls"] = false;
  const Json whole = respond(body);
  const Json& call = whole["output"].back();
  ASSERT_EQ(call["type"], "function_call") << whole;
  EXPECT_EQ(call["name"], "weather");
  EXPECT_TRUE(Json::parse(call["arguments"].get<std::string>())["place"].is_string());
  EXPECT_EQ(whole["tools"], body["tools"]);
  EXPECT_EQ(without_ids(streamed(body).back()["response"]), without_ids(whole));
  Json indented = body;
  indented["stream"] = true;
  const std::vector<Json> events = named_events<Json>(server_->ask(post("/v1/responses", indented.dump(2))).body);
  EXPECT_EQ(without_ids(events.back()["response"]), without_ids(whole));

  // What the call returned, with the whole conversation and on top of the response: the same prompt.
  const Json output{{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "12"}};
  Json all = Json::array({{{"role", "user"}, {"content", "how is it there?"}}});
  for (const Json& item : whole["output"]) all.push_back(item);
  all.push_back(output);
  const Json anew = respond(request(all, 2));
  Json next = request(Json::array({output}), 2);
  next["previous_response_id"] = whole["id"];
  const Json continued = respond(next);
  EXPECT_EQ(without_ids(continued), without_ids(anew));
  EXPECT_EQ(continued["previous_response_id"], whole["id"]);
  Json referenced = all;
  referenced[referenced.size() - 2] = {{"type", "item_reference"}, {"id", call["id"]}};
  EXPECT_EQ(without_ids(respond(request(referenced, 2))), without_ids(anew));
}

TEST_F(ServeResponses, HaveTheFormThatIsAskedFor) {
  Json body = request("who?", 1, 300);
  body["text"] = {{"format",
                   {{"type", "json_schema"},
                    {"name", "person"},
                    {"schema", Json::parse(R"({"type": "object", "properties": {"name": {"type": "string",
                      "maxLength": 4}, "age": {"type": "integer", "minimum": 10, "maximum": 99}},
                      "required": ["name", "age"], "additionalProperties": false})")}}}};
  const Json answer = respond(body);
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(Json::parse(text_of(answer)).size(), 2);
  EXPECT_EQ(answer["text"], body["text"]);
}

TEST_F(ServeResponses, AreKeptUntilTheyAreForgotten) {
  const Json first = respond(request("a", 1));
  const std::string path = "/v1/responses/" + first["id"].get<std::string>();
  EXPECT_EQ(server_->json(get(path)), first);
  Json next = request("b", 2);
  next["previous_response_id"] = first["id"];
  const Json second = respond(next);
  const std::string items = "/v1/responses/" + second["id"].get<std::string>() + "/input_items";
  const Json all = server_->json(get(items + "?order=asc"));
  ASSERT_EQ(all["data"].size(), 3);
  EXPECT_EQ(all["data"][0]["content"][0]["text"], "a");
  EXPECT_EQ(all["data"][1], first["output"][0]);
  EXPECT_EQ(all["data"][2]["content"][0]["text"], "b");
  EXPECT_EQ(all["first_id"], all["data"][0]["id"]);
  EXPECT_EQ(all["has_more"], false);
  const Json page = server_->json(get(items + "?limit=1&after=" + all["last_id"].get<std::string>()));
  ASSERT_EQ(page["data"].size(), 1);
  EXPECT_EQ(page["data"][0], all["data"][1]);
  EXPECT_EQ(page["has_more"], true);

  EXPECT_EQ(server_->json(forget(path)), (Json{{"id", first["id"]}, {"object", "response"}, {"deleted", true}}));
  for (const std::string& gone : {get(path), forget(path), get(path + "/input_items")}) {
    const Json error = server_->json(gone, 404)["error"];
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("is kept"));
    EXPECT_EQ(error["type"], "invalid_request_error");
  }
  EXPECT_EQ(server_->json(get(items + "?order=asc")), all) << "what it answers stays";

  Json unkept = request("a", 1);
  unkept["store"] = false;
  const Json answer = respond(unkept);
  EXPECT_EQ(answer["store"], false);
  EXPECT_EQ(server_->ask(get("/v1/responses/" + answer["id"].get<std::string>())).status, 404);
  EXPECT_EQ(server_->json(get(items + "?limit=0"), 400)["error"]["param"], "limit");
  EXPECT_EQ(server_->json(get(items + "?order=up"), 400)["error"]["param"], "order");
  EXPECT_EQ(server_->json(get(items + "?after=none"), 400)["error"]["param"], "after");
}

TEST_F(ServeResponses, CountTokensAsTheyTakeThem) {
  const Json input = request("count me", 1);
  const Json counted =
      server_->json(post("/v1/responses/input_tokens", Json{{"model", "chatty"}, {"input", "count me"}}.dump()));
  EXPECT_EQ(counted["input_tokens"], respond(input)["usage"]["input_tokens"]);
  EXPECT_EQ(counted["object"], "response.input_tokens");
}

TEST_F(ServeResponses, AreRefusedByName) {
  Json body = request("a", 1);
  body["max_output_tokens"] = 100'000;
  EXPECT_THAT(refusal(body, "max_output_tokens"), HasSubstr("max_output_tokens is 100000; accepted: up to"));
  body = request("a", 1);
  body["reasoning"] = {{"effort", "high"}};
  body["model"] = "thinks";
  EXPECT_THAT(refusal(body, "reasoning.effort"),
              HasSubstr("reasoning.effort is 'high', and the model has no levels of thinking"));
  body = request("a", 1);
  body["previous_response_id"] = "resp_0";
  EXPECT_EQ(refusal(body, "previous_response_id"), "previous_response_id is 'resp_0', and no such response is kept");
  body = request(Json::array({{{"type", "item_reference"}, {"id", "msg_0"}}}), 1);
  EXPECT_EQ(refusal(body, "input[0].id"), "input[0].id is 'msg_0', and no such item is kept");
  body = request("a", 1);
  body["text"] = Json::parse(R"({"format": {"type": "json_schema", "name": "n", "schema": {"type": "none"}}})");
  (void)refusal(body, "text.format");
  EXPECT_EQ(refusal(request(Json::array(), 1), "input"), "input has no item, and no response is continued");
  EXPECT_EQ(respond(Json{{"model", "none"}, {"input", "a"}}, 404)["error"]["code"], "model_not_found");
}

TEST(ServeResponsesOfNoNumber, AreNotKept) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"chatty", "--no-grpc", "--max-responses", "0"});
  const Json answer = server.json(post("/v1/responses", R"({"input": "a", "max_output_tokens": 3})"));
  EXPECT_EQ(answer["store"], false);
  EXPECT_EQ(server.ask(get("/v1/responses/" + answer["id"].get<std::string>())).status, 404);
}

// Nobody reads, continues or forgets a response of another key.
TEST(ServeResponsesOfKeys, AreKeptApart) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const auto keys = gpux.folder().write("keys.txt", "first-key-123\nsecond-key-456\n");
  const Serving server(gpux, {"chatty", "--no-grpc", "--api-key-file", keys.string()});
  const std::string mine = "Authorization: Bearer first-key-123\r\n", others = "X-API-Key: second-key-456\r\n";
  Json body{{"input", "a"}, {"max_output_tokens", 3}, {"temperature", 0}};
  const Json answer = server.json(post("/v1/responses", body.dump(), mine));
  const std::string path = "/v1/responses/" + answer["id"].get<std::string>();
  EXPECT_EQ(server.json(get(path, mine)), answer);
  EXPECT_EQ(server.ask(get(path, others)).status, 404);
  EXPECT_EQ(server.ask(get(path)).status, 401);
  EXPECT_EQ(server.ask(forget(path, others)).status, 404);
  body["previous_response_id"] = answer["id"];
  EXPECT_EQ(server.ask(post("/v1/responses", body.dump(), others)).status, 400);
  EXPECT_EQ(server.ask(post("/v1/responses", body.dump(), mine)).status, 200);
  const Json reference{{"input", {{{"type", "item_reference"}, {"id", answer["output"][0]["id"]}}}},
                       {"max_output_tokens", 3}};
  EXPECT_EQ(server.ask(post("/v1/responses", reference.dump(), others)).status, 400);
  EXPECT_EQ(server.ask(post("/v1/responses", reference.dump(), mine)).status, 200);
  EXPECT_EQ(server.ask(forget(path, mine)).status, 200);
}

}  // namespace
}  // namespace gpux::test
