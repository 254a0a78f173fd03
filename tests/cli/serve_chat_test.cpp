// gpux serve with a tiny decoder, as OpenAI's clients meet it: chats and completions.
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/sanitizers.h"
#include "cli/chat_model.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::AnyOf;
using testing::HasSubstr;

const Json weather = Json::parse(R"({"type": "function", "function": {"name": "weather", "description": "of a place",
  "parameters": {"type": "object", "properties": {"place": {"type": "string", "maxLength": 5},
                                                  "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                 "required": ["place", "days"], "additionalProperties": false}}})");
const Json now = Json::parse(R"({"type": "function", "function": {"name": "now"}})");

class ServeChat : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    gpux_ = new Program;
    store_chat_model(*gpux_, "chatty", plain_template);
    server_ = new Serving(*gpux_, {"chatty", "--no-grpc", "--strict-requests"});
  }

  static void TearDownTestSuite() {
    delete server_;
    delete gpux_;
  }

  static Json request(const std::string& text, int seed, int max_tokens = 24) {
    return {{"model", "chatty"},
            {"messages", {{{"role", "user"}, {"content", text}}}},
            {"temperature", 1.5},
            {"seed", seed},
            {"max_tokens", max_tokens}};
  }

  static Json chat(const Json& body, int status = 200) {
    return server_->json(post("/v1/chat/completions", body.dump()), status);
  }

  static std::vector<Json> streamed(Json body) {
    body["stream"] = true;
    const Answered answer = server_->ask(post("/v1/chat/completions", body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_TRUE(answer.complete);
    return events_of(answer.body);
  }

  static std::string text_of(const std::vector<Json>& events) {
    std::string text;
    for (const Json& event : events) {
      for (const Json& choice : event.at("choices")) text += choice.at("delta").value("content", "");
    }
    return text;
  }

  static std::string refusal(const Json& body, const std::string& path = "/v1/chat/completions") {
    const Json error = server_->json(post(path, body.dump()), 400).at("error");
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    return error.at("message");
  }

  static Program* gpux_;
  static Serving* server_;
};

Program* ServeChat::gpux_ = nullptr;
Serving* ServeChat::server_ = nullptr;

TEST_F(ServeChat, AnswersWholeAsStreamed) {
  for (int seed = 0; seed < 4; ++seed) {
    Json body = request("say something", seed);
    const Json whole = chat(body);
    EXPECT_EQ(whole.at("object"), "chat.completion");
    EXPECT_EQ(whole.at("model"), "chatty");
    const Json& choice = whole.at("choices").at(0);
    const std::string text = choice.at("message").at("content");
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(choice.at("message").at("role"), "assistant");
    EXPECT_THAT(choice.at("finish_reason"), AnyOf("stop", "length"));
    // <user>say something<assistant>, a character each; "<user>" begins behind a blank that the tokenizer adds or not.
    EXPECT_THAT(whole.at("usage").at("prompt_tokens").get<int>(), testing::Ge(30));
    EXPECT_LE(whole.at("usage").at("completion_tokens"), 24);

    body["stream_options"] = {{"include_usage", true}};
    const std::vector<Json> events = streamed(body);
    EXPECT_EQ(text_of(events), text) << seed;
    EXPECT_EQ(events.front().at("object"), "chat.completion.chunk");
    EXPECT_EQ(events.front().at("choices").at(0).at("delta").at("role"), "assistant");
    EXPECT_EQ(events.back().at("usage").at("completion_tokens"), whole.at("usage").at("completion_tokens"));
    EXPECT_EQ(events[events.size() - 2].at("choices").at(0).at("finish_reason"), choice.at("finish_reason"));
  }
}

TEST_F(ServeChat, WritesNoBadWordsAndSaysWhatEndedAText) {
  Json body = request("go on", 3, 40);
  body["ignore_eos"] = true;
  const std::string usual = chat(body).at("choices").at(0).at("message").at("content");
  ASSERT_GT(usual.size(), 12U);
  // Tokens are characters.
  const std::string word = usual.substr(8, 2);
  ASSERT_THAT(usual, HasSubstr(word));
  body["bad_words"] = Json::array({word});
  const std::string without = chat(body).at("choices").at(0).at("message").at("content");
  EXPECT_THAT(without, testing::Not(HasSubstr(word)));
  EXPECT_FALSE(without.empty());
  body.erase("bad_words");

  body["stop"] = {word};
  EXPECT_EQ(chat(body).at("choices").at(0).at("stop_reason"), word);
  EXPECT_EQ(streamed(body).back().at("choices").at(0).at("stop_reason"), word);
  body.erase("stop");
  body["stop_token_ids"] = {std::stoi(token_of(word[0]))};
  EXPECT_EQ(chat(body).at("choices").at(0).at("stop_reason"), std::stoi(token_of(word[0])));
  body.erase("stop_token_ids");
  EXPECT_FALSE(chat(body).at("choices").at(0).contains("stop_reason"));

  body["bad_words"] = {""};
  EXPECT_THAT(refusal(body), HasSubstr("bad_words has a text of 0 bytes; accepted: 1 to 256"));
  body["bad_words"] = {"a"};
  body["ignore_eos"] = false;
  body["response_format"] = {{"type", "json_object"}};
  EXPECT_THAT(refusal(body), HasSubstr("bad_words"));
}

// As llama.cpp's and vLLM's clients ask.
TEST_F(ServeChat, TellsItsTokensAndTemplate) {
  const Json asked = {{"model", "chatty"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  const std::string prompt = server_->json(post("/apply-template", asked.dump())).at("prompt");
  EXPECT_THAT(prompt, testing::AllOf(HasSubstr("user"), HasSubstr("hi")));

  const Json whole = server_->json(post("/tokenize", Json{{"content", "sayhi"}}.dump()));
  const Json pieces = server_->json(post("/tokenize", Json{{"content", "sayhi"}, {"with_pieces", true}}.dump()));
  std::string text;
  Json ids = Json::array();
  for (const Json& piece : pieces.at("tokens")) {
    ids.push_back(piece.at("id"));
    text += piece.at("piece");
  }
  EXPECT_EQ(ids, whole.at("tokens"));
  EXPECT_THAT(text, HasSubstr("sayhi"));
  const Json counted = server_->json(post("/tokenize", Json{{"model", "chatty"}, {"prompt", "sayhi"}}.dump()));
  EXPECT_EQ(counted.at("count"), counted.at("tokens").size());
  EXPECT_TRUE(counted.at("token_strs").is_null());
  const Json back = server_->json(post("/detokenize", Json{{"tokens", ids}}.dump()));
  EXPECT_THAT(back.at("content").get<std::string>(), HasSubstr("sayhi"));
  EXPECT_EQ(back.at("prompt"), back.at("content"));
  EXPECT_EQ(server_->json(post("/detokenize", R"({"tokens": []})")).at("content"), "");

  const Json properties = server_->json(get("/props?model=chatty"));
  EXPECT_EQ(properties.at("model_alias"), "chatty");
  EXPECT_EQ(counted.at("max_model_len"), properties.at("default_generation_settings").at("n_ctx"));
  EXPECT_EQ(properties.at("chat_template"), plain_template);
  EXPECT_EQ(server_->json(get("/slots")).size(), properties.at("total_slots"));

  EXPECT_THAT(server_->json(post("/tokenize", R"({"content": "a", "parse_special": false})"), 422).dump(),
              HasSubstr("parse_special: special tokens in a text are always read as such"));
  EXPECT_THAT(refusal({{"tokens", {"a"}}}, "/detokenize"), HasSubstr("tokens"));
  EXPECT_THAT(server_->json(get("/props?model=none"), 404).at("error").at("message").get<std::string>(),
              HasSubstr("none"));
}

TEST_F(ServeChat, ObeysItsSettings) {
  Json body = request("go on", 3, 12);
  body["ignore_eos"] = true;
  const Json answer = chat(body);
  const std::string text = answer["choices"][0]["message"]["content"];
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  body["max_completion_tokens"] = 12;
  EXPECT_EQ(chat(body)["choices"][0]["message"]["content"], text);

  // Ended before a text of its own.
  Json stopped = body;
  const std::string stop = text.substr(text.size() / 2, 1);
  stopped["stop"] = {stop, "never there"};
  EXPECT_EQ(chat(stopped)["choices"][0]["message"]["content"], text.substr(0, text.find(stop)));
  EXPECT_EQ(chat(stopped)["choices"][0]["finish_reason"], "stop");

  // Answers have the seeds 3 and 4.
  Json several = body;
  several["n"] = 2;
  const Json two = chat(several);
  EXPECT_EQ(two["choices"][0]["message"]["content"], text);
  Json next = body;
  next["seed"] = 4;
  EXPECT_EQ(two["choices"][1]["message"]["content"], chat(next)["choices"][0]["message"]["content"]);
  EXPECT_EQ(two["choices"][1]["index"], 1);

  Json scored = body;
  scored["logprobs"] = true;
  scored["top_logprobs"] = 2;
  const Json scores = chat(scored)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(scores.size(), 12);
  EXPECT_EQ(scores[0]["top_logprobs"].size(), 2);
  EXPECT_LE(scores[0]["logprob"], 0);

  Json biased = body;
  biased["temperature"] = 0;
  biased["logit_bias"] = {{"40", 100}};
  const std::string same = chat(biased)["choices"][0]["message"]["content"];
  EXPECT_EQ(std::count(same.begin(), same.end(), same.back()), 12) << same;
  // Each time that it occurred counts.
  biased["frequency_penalty"] = 2;
  biased["logit_bias"]["40"] = 10;
  EXPECT_NE(chat(biased)["choices"][0]["message"]["content"], same);
}

TEST_F(ServeChat, ReadsAllRolesAndPartsOfTexts) {
  Json parts = request("", 1);
  parts["messages"] = Json::parse(R"([
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "ann"},
    {"role": "assistant", "content": null, "refusal": null, "audio": null, "reasoning_content": "hm",
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "12"}])");
  Json plain = parts;
  plain["messages"][0]["role"] = "system";
  plain["messages"][1]["content"] = "a\nb";
  const Json answer = chat(parts);
  EXPECT_EQ(answer["choices"], chat(plain)["choices"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], chat(plain)["usage"]["prompt_tokens"]);
}

TEST_F(ServeChat, CallsToolsWhereItMust) {
  for (int seed = 0; seed < 4; ++seed) {
    Json body = request("how is it there?", seed, 200);
    body["tools"] = {weather, now};
    body["tool_choice"] = "required";
    body["parallel_tool_calls"] = false;
    body["logit_bias"] = {{token_of('h'), -100}};  // <tool_call>, and not <think>
    const Json choice = chat(body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
    EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1) << choice;
    const Json call = choice["message"]["tool_calls"][0];
    EXPECT_EQ(call["type"], "function");
    EXPECT_FALSE(call["id"].get<std::string>().empty());
    const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
    if (call["function"]["name"] == "now") {
      EXPECT_EQ(arguments, Json::object());
    } else {
      EXPECT_EQ(call["function"]["name"], "weather");
      EXPECT_THAT(arguments["days"].get<int>(), testing::AllOf(testing::Ge(1), testing::Le(9)));
      EXPECT_TRUE(arguments["place"].is_string());
      EXPECT_EQ(arguments.size(), 2);
    }
    // The same in parts.
    std::string name, written;
    int parts = 0;
    for (const Json& event : streamed(body)) {
      for (const Json& part : event["choices"][0]["delta"].value("tool_calls", Json::array())) {
        ++parts;
        EXPECT_EQ(part["index"], 0);
        name += part["function"].value("name", "");
        written += part["function"].value("arguments", "");
      }
    }
    EXPECT_EQ(name, call["function"]["name"].get<std::string>());
    EXPECT_EQ(written, call["function"]["arguments"].get<std::string>());
    if (arguments.size() == 2) {
      EXPECT_GE(parts, 5) << "arguments come as they are generated";
    }

    body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "weather"}}}};
    EXPECT_EQ(chat(body)["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "weather");
  }
  // What the model does by itself is its own affair: an answer.
  Json automatic = request("how is it there?", 1);
  automatic["tools"] = Json::array({weather});
  EXPECT_TRUE(chat(automatic)["choices"][0]["message"]["content"].is_string());
  automatic["tool_choice"] = "none";
  Json without = request("how is it there?", 1);
  EXPECT_EQ(chat(automatic)["usage"]["prompt_tokens"], chat(without)["usage"]["prompt_tokens"]);
}

// Cut off, it has the calls that are whole, which are none here, and nothing that looks like an answer.
TEST_F(ServeChat, GivesAPartOfTheArgumentsWhereItIsCut) {
  Json body = request("how is it there?", 1, 200);
  body["tools"] = Json::array({weather});
  body["tool_choice"] = "required";
  body["parallel_tool_calls"] = false;
  body["logit_bias"] = {{token_of('h'), -100}};
  const Json whole = chat(body);
  const std::string arguments = whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
  body["max_tokens"] = whole["usage"]["completion_tokens"].get<int>() - 20;  // of them </tool_call> has 12
  const Json cut = chat(body)["choices"][0];
  EXPECT_EQ(cut["finish_reason"], "length") << cut;
  const std::string part = cut["message"]["tool_calls"][0]["function"]["arguments"];
  EXPECT_LT(part.size(), arguments.size());
  EXPECT_TRUE(arguments.starts_with(part)) << part;
  const Json for_anthropic = {
      {"model", "chatty"},
      {"messages", body["messages"]},
      {"max_tokens", body["max_tokens"]},
      {"temperature", 0},
      {"tools", Json::array({{{"name", "weather"}, {"input_schema", weather["function"]["parameters"]}}})},
      {"tool_choice", {{"type", "any"}}}};
  const Json answer = server_->json(post("/v1/messages", for_anthropic.dump()));
  for (const Json& block : answer["content"]) {
    if (block["type"] == "tool_use") {
      EXPECT_TRUE(block["input"].is_object());
    }
  }
}

TEST_F(ServeChat, GivesNoPartOfACallThatItMustMake) {
  Json body = request("how is it there?", 1, 20);
  body["tools"] = {weather, now};
  body["tool_choice"] = "required";
  body["logit_bias"] = {{token_of('h'), -100}};
  const Json choice = chat(body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length") << choice;
  EXPECT_EQ(choice["message"]["content"], "");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(text_of(streamed(body)), "");
}

// As LiteLLM and others send answers back, and mark prompts.
TEST_F(ServeChat, TakesNotesThatChangeNothing) {
  const Json plain = Json::parse(R"([{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b", "tool_calls": [{"id": "1", "type": "function",
     "function": {"name": "now", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "c"}])");
  const Json noted = Json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "a",
     "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": "b", "provider_specific_fields": {"refusal": null}, "tool_calls": [{"id": "1",
     "type": "function", "provider_specific_fields": {"x": 1}, "function": {"name": "now", "arguments": "{}",
     "provider_specific_fields": {}}}]},
    {"role": "tool", "tool_call_id": "1", "content": "c", "provider_specific_fields": null,
     "cache_control": {"type": "ephemeral"}}])");
  Json body = request("", 1);
  body["messages"] = plain;
  const Json expected = chat(body);
  body["messages"] = noted;
  const Json answer = chat(body);
  EXPECT_EQ(answer["choices"], expected["choices"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
  body["messages"][1]["provider_specific_fields"] = "x";
  EXPECT_EQ(chat(body)["choices"], expected["choices"]) << "whatever it is";
}

// The answer is in progress, and not still to be processed.
TEST_F(ServeChat, SaysThatItWasNotFinishedInTime) {
  Json body = request("a", 1, 500);
  body["n"] = 64;
  body["guided_regex"] = "[ab]{1000}";
  const Json error =
      server_->json(post("/v1/chat/completions", body.dump(), "X-Request-Timeout-Ms: 400\r\n"), 504)["error"];
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("not finished in time"));
}

TEST_F(ServeChat, TakesSchemasOf120Levels) {
  Json schema = {{"type", "integer"}};
  for (int i = 0; i < 60; ++i) schema = {{"type", "array"}, {"items", std::move(schema)}, {"maxItems", 1}};
  for (int i = 0; i < 30; ++i) schema = {{"anyOf", {std::move(schema)}}};
  Json body = request("a", 1);
  body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "deep"}, {"schema", schema}}}};
  EXPECT_TRUE(chat(body)["choices"][0]["message"]["content"].get<std::string>().starts_with("["));
}

// A model that is not told of tools would call none, or invent calls.
TEST(ServeTools, AreRefusedWhereTheTemplateShowsNone) {
  const Program gpux;
  const std::string messages = "{%- for m in messages -%}{{ m.content }}{%- endfor -%}";
  store_chat_model(gpux, "hides", "{#- <tool_call> -#}" + messages);
  store_chat_model(gpux, "other", "{#- <tool_call>{name}<tool_sep> -#}{{ tools }}" + messages);
  const Serving server(gpux, {"hides", "other", "--no-grpc", "--cache-memory", "64KiB"});
  const auto ask = [&](const std::string& model, const Json& choice, int status) {
    const Json body{{"model", model},
                    {"messages", {{{"role", "user"}, {"content", "now?"}}}},
                    {"tools", Json::array({now})},
                    {"tool_choice", choice},
                    {"max_tokens", 20}};
    return server.json(post("/v1/chat/completions", body.dump()), status);
  };
  for (const char* choice : {"auto", "required"}) {
    const Json error = ask("hides", choice, 400)["error"];
    EXPECT_EQ(error["message"],
              "tools are given, and the chat template does not show them to the model; accepted: none");
    EXPECT_EQ(error["param"], "tools");
  }
  EXPECT_EQ(ask("hides", "none", 200)["choices"].size(), 1);
  EXPECT_THAT(ask("other", "auto", 400)["error"]["message"].get<std::string>(),
              HasSubstr("has no calls in a form that is known"));
  EXPECT_EQ(ask("other", "required", 200)["choices"][0]["finish_reason"], "length");
  // The memory is short, too: who sends prompts has to know.
  const Json listed = server.json(get("/v1/models"));
  for (const Json& model : listed["data"]) {
    EXPECT_GT(model["max_model_len"], 16) << model;
    EXPECT_LT(model["max_model_len"], 640) << model;
    const std::string id = model["id"];
    EXPECT_EQ(server.json(get("/v1/models/" + id))["max_model_len"], model["max_model_len"]);
    EXPECT_THAT(server.ask(get("/models/" + id + "/info")).body,
                HasSubstr("tokens instead of 640: the memory for keys and values (65536 bytes)"));
  }
  const Json show = server.json(post("/api/show", R"({"model": "hides"})"));
  EXPECT_THAT(show["capabilities"].dump(), testing::Not(HasSubstr("tools")));
}

// A model that thinks first may do so before a call that it has to make; where its prompt has begun to, it has to end.
TEST(ServeThinking, ComesBeforeACallThatIsRequired) {
  const Program gpux;
  const std::string messages =
      "{#- <tool_call> <think> </think> -#}{%- for tool in tools or [] -%}{{ tool.function.name }}{%- endfor -%}"
      "{%- for m in messages -%}{{ m.content }}{%- endfor -%}";
  store_chat_model(gpux, "may", messages);
  store_chat_model(gpux, "must", messages + "<think>\n");
  const Serving server(gpux, {"may", "must", "--no-grpc"});
  const auto ask = [&](const std::string& model, Json bias, int seed) {
    bias[end_of_thinking] = 8;
    const Json body{{"model", model},
                    {"messages", {{{"role", "user"}, {"content", "now?"}}}},
                    {"tools", Json::array({now})},
                    {"tool_choice", "required"},
                    {"parallel_tool_calls", false},
                    {"temperature", 1.5},
                    {"logit_bias", bias},
                    {"seed", seed},
                    {"max_tokens", 400}};
    return server.json(post("/v1/chat/completions", body.dump()))["choices"][0];
  };
  bool has_thoughts = false;
  for (int seed = 0; seed < 4; ++seed) {
    for (const Json& choice :
         {ask("may", Json::object({{token_of('o'), -100}}), seed), ask("must", Json::object(), seed)}) {
      EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
      ASSERT_EQ(choice["message"]["tool_calls"].size(), 1) << choice;
      EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "now");
      EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
      has_thoughts = has_thoughts || choice["message"].contains("reasoning_content");
    }
    const Json without = ask("may", Json::object({{token_of('h'), -100}}), seed);
    EXPECT_EQ(without["finish_reason"], "tool_calls") << without;
    EXPECT_FALSE(without["message"].contains("reasoning_content")) << without;
  }
  EXPECT_TRUE(has_thoughts);
}

// The answer is a call, or has the form: by the model's choice, which a bias decides here.
TEST(ServeTools, AreCalledInsteadOfATextOfAForm) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  store_chat_model(gpux, "unknown", "{{ tools }}{% for message in messages %}{{ message.content }}{% endfor %}");
  const Serving server(gpux, {"chatty", "unknown", "--no-grpc"});
  const auto ask = [&](const std::string& model, const Json& choice, Json bias, int seed) {
    const Json body{{"model", model},
                    {"messages", {{{"role", "user"}, {"content", "now?"}}}},
                    {"tools", Json::array({now})},
                    {"tool_choice", choice},
                    {"parallel_tool_calls", false},
                    {"response_format", Json::parse(R"({"type": "json_schema", "json_schema": {"name": "n", "schema":
                        {"type": "object", "properties": {"age": {"type": "integer", "minimum": 10, "maximum": 99}},
                         "required": ["age"], "additionalProperties": false}}})")},
                    {"logit_bias", std::move(bias)},
                    {"seed", seed},
                    {"max_tokens", 400}};
    return server.json(post("/v1/chat/completions", body.dump()))["choices"][0];
  };
  const Json allowed = Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools":
      [{"type": "function", "function": {"name": "now"}}]}})");
  for (int seed = 0; seed < 3; ++seed) {
    for (const Json& choice : {Json("auto"), allowed}) {
      const Json call =
          ask("chatty", choice, Json::object({{token_of('<'), 100}, {token_of('h'), -100}, {token_of('}'), 30}}), seed);
      EXPECT_EQ(call["finish_reason"], "tool_calls") << call;
      EXPECT_EQ(call["message"]["tool_calls"][0]["function"]["name"], "now") << call;
      EXPECT_TRUE(call["message"]["content"].is_null()) << call;
      const Json text = ask("chatty", choice, Json::object({{token_of('<'), -100}}), seed);
      EXPECT_EQ(text["finish_reason"], "stop") << text;
      EXPECT_EQ(Json::parse(text["message"]["content"].get<std::string>()).size(), 1) << text;
    }
    // Calls whose form is not known are JSON, as the text is.
    const Json text = ask("unknown", "auto", Json::object({{token_of('n'), -100}}), seed);
    EXPECT_TRUE(Json::parse(text["message"]["content"].get<std::string>()).contains("age")) << text;
    // White space is of the text alone.
    const Json bias{{token_of('a'), -100}, {token_of(' '), -100}, {"101", -100}, {token_of('}'), 30}};
    const Json call = ask("unknown", "auto", bias, seed);
    ASSERT_EQ(call["finish_reason"], "tool_calls") << call;
    EXPECT_EQ(call["message"]["tool_calls"][0]["function"]["name"], "now") << call;
    const Json silent = Json::object({{token_of('h'), -100}});
    EXPECT_EQ(ask("chatty", "required", silent, seed)["finish_reason"], "tool_calls");
    EXPECT_FALSE(ask("chatty", "none", Json::object(), seed)["message"].contains("tool_calls"));
  }
}

TEST_F(ServeChat, WritesTheFormThatIsAskedFor) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 4},
    "age": {"type": "integer", "minimum": 10, "maximum": 99}}, "required": ["name", "age"],
    "additionalProperties": false})");
  for (int seed = 0; seed < 3; ++seed) {
    Json body = request("who?", seed, 300);
    body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}};
    const Json choice = chat(body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    const Json person = Json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_EQ(person.size(), 2);
    EXPECT_THAT(person["age"].get<int>(), testing::AllOf(testing::Ge(10), testing::Le(99)));
    EXPECT_EQ(text_of(streamed(body)), choice["message"]["content"].get<std::string>());
    body.erase("response_format");
    body["guided_choice"] = {"yes", "no"};
    EXPECT_THAT(chat(body)["choices"][0]["message"]["content"], AnyOf("yes", "no"));
    // Completions, too.
    const Json completion = {{"prompt", "who?"}, {"seed", seed}, {"max_tokens", 40}, {"guided_regex", "[ab]{2,5}c"}};
    const Json text = server_->json(post("/v1/completions", completion.dump()))["choices"][0]["text"];
    EXPECT_THAT(text.get<std::string>(), testing::MatchesRegex("[ab]+c"));
  }
}

TEST_F(ServeChat, RefusesByName) {
  const Json good = request("a", 1);

  struct {
    const char* member;
    const char* value;
    const char* reason;
  } const cases[]{
      {"messages", "[]", "messages is no list of at least one message"},
      {"messages", R"([{"role": "king", "content": "a"}])", "messages[0].role is 'king'; accepted: system, developer"},
      {"messages", R"([{"role": "user"}])", "messages[0].content is missing"},
      {"messages", R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}])",
       "messages[0].content[0].type is 'image_url'; accepted: text"},
      {"messages", R"([{"role": "user", "content": "a", "colour": 1}])", "messages[0].colour is not known"},
      {"messages", R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}])",
       "messages[0].tool_calls[0].function.arguments is neither a text nor an object"},
      {"temperature", "-1", "temperature is -1; accepted: 0 to 100"},
      {"n", "129", "n is 129; accepted: up to 128"},
      {"top_logprobs", "2", "top_logprobs is for answers with logprobs: true"},
      {"max_completion_tokens", "25", "max_tokens is 24, and max_completion_tokens 25"},
      {"max_tokens", "100000", "max_tokens is 100000; accepted: up to"},
      {"stream_options", R"({"include_usage": true})", "stream_options is for answers with \"stream\": true"},
      {"tool_choice", R"("required")", "tool_choice is there, and no tools are"},
      {"tools", R"([{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name is 'a b'; accepted"},
      {"tools", R"([{"type": "retrieval", "function": {"name": "a"}}])", "tools[0].type is 'retrieval'"},
      {"response_format", R"({"type": "xml"})", "response_format.type is \"xml\"; accepted: text, json_object"},
      {"guided_json", R"({"type": "object", "uniqueItems": true})", "uniqueItems"},
      {"continue_final_message", "true", "continue_final_message is true, and the last message is none"},
      {"echo", "true", "echo: answers do not repeat messages"},
      {"modalities", R"(["text", "audio"])", "modalities has others than text"},
      {"chat_template_kwargs", "3", "chat_template_kwargs is no object"},
      {"chat_template_kwargs", R"({"messages": []})", "chat_template_kwargs has 'messages'"},
      {"colour", "3", "colour is not known; accepted: "},
  };

  for (const auto& [member, value, reason] : cases) {
    Json body = good;
    body[member] = Json::parse(value);
    EXPECT_THAT(refusal(body), HasSubstr(reason)) << member;
  }
  Json both = good;
  both["tools"] = Json::array({now});
  both["tool_choice"] = {{"type", "function"}, {"function", {{"name", "other"}}}};
  EXPECT_THAT(refusal(both), HasSubstr("tool_choice.function.name is 'other', which is none of the tools"));
  Json gone = good;
  gone["model"] = "gone";
  EXPECT_EQ(chat(gone, 404)["error"]["code"], "model_not_found");
}

// As OpenAI's errors do, which clients act on.
TEST_F(ServeChat, NamesTheMemberThatIsAtFault) {
  struct Row {
    const char* member;
    const char* value;
    const char* param;
    const char* code;
  };

  const auto error_of = [](const std::string& path, const Json& body) {
    const Json error = server_->json(post(path, body.dump()), 400).at("error");
    EXPECT_EQ(error.size(), 4U) << error;
    return error;
  };
  for (const Row& row : std::vector<Row>{
           {"messages", "null", "messages", "missing_required_parameter"},
           {"messages", R"([{"role": "user"}])", "messages[0].content", "missing_required_parameter"},
           {"messages", R"([{"role": "user", "content": 3}])", "messages[0].content", "invalid_value"},
           {"messages", R"([{"role": "king", "content": "a"}])", "messages[0].role", "invalid_value"},
           {"messages", R"([{"role": "user", "content": "a", "colour": 1}])", "messages[0].colour",
            "unknown_parameter"},
           {"colour", "1", "colour", "unknown_parameter"},
           {"temperature", "\"hot\"", "temperature", "invalid_value"},
           {"temperature", "101", "temperature", "invalid_value"},
           {"max_tokens", "1000000000000000000", "max_tokens", "invalid_value"},
           {"max_tokens", "100000", "max_tokens", "invalid_value"},
           {"n", "129", "n", "invalid_value"},
           {"top_logprobs", "21", "top_logprobs", "invalid_value"},
           {"stop", "[\"\"]", "stop", "invalid_value"},
           {"stop_token_ids", "[100000]", "stop_token_ids", "invalid_value"},
           {"logit_bias", R"({"100000": 1})", "logit_bias", "invalid_value"},
           {"logit_bias", R"({"1": 1000})", "logit_bias", "invalid_value"},
           {"logit_bias", R"({"1": "a"})", "logit_bias.1", "invalid_value"},
           {"min_tokens", "30", "min_tokens", "invalid_value"},
           {"tool_choice", R"("required")", "tool_choice", "invalid_value"},
           {"tools", R"([{"function": {"name": "a b"}}])", "tools[0].function.name", "invalid_value"},
           {"response_format", R"({"type": "xml"})", "response_format.type", "invalid_value"},
           {"response_format", R"({"type": "json_schema", "json_schema": {"name": "a", "schema": false}})",
            "response_format", "invalid_value"},
           {"guided_regex", "\"(\"", "guided_regex", "invalid_value"},
           {"stream_options", R"({"x": 1})", "stream_options", "invalid_value"},
           {"model", "3", "model", "invalid_value"},
       }) {
    Json body = request("a", 1);
    body[row.member] = Json::parse(row.value);
    const Json error = error_of("/v1/chat/completions", body);
    EXPECT_EQ(error.at("param"), row.param) << error;
    EXPECT_EQ(error.at("code"), row.code) << error;
    EXPECT_EQ(error.at("type"), "invalid_request_error");
  }
  const std::string long_text(1000, 'a');
  const Json too_long = error_of("/v1/chat/completions", request(long_text, 1));
  EXPECT_EQ(too_long.at("param"), "messages") << too_long;
  EXPECT_EQ(too_long.at("code"), "context_length_exceeded");
  // Also where it is too long to be tokenized at all.
  for (const std::string& text : {long_text, std::string(1'100'000, 'a')}) {
    const Json prompt = error_of("/v1/completions", {{"prompt", text}});
    EXPECT_EQ(prompt.at("param"), "prompt") << prompt;
    EXPECT_EQ(prompt.at("code"), "context_length_exceeded");
    EXPECT_EQ(error_of("/v1/chat/completions", request(text, 1)).at("code"), "context_length_exceeded");
  }
  // As many may wait as of other models.
  Json many{{"prompt", Json::array()}, {"n", 128}, {"max_tokens", 1}};
  for (int i = 0; i < 10; ++i) many["prompt"].push_back("a");
  const Json too_many = error_of("/v1/completions", many);
  EXPECT_EQ(too_many.at("message"), "the request asks for 1280 answers; accepted by this server: up to 1040");
  Json least = request("a", 1);
  least["guided_regex"] = "a*";
  least["min_tokens"] = 3;
  EXPECT_EQ(error_of("/v1/chat/completions", least).at("param"), "min_tokens");
  Json ends = request("a", 1);
  ends["response_format"] = {{"type", "json_object"}};
  ends["ignore_eos"] = true;
  EXPECT_THAT(error_of("/v1/chat/completions", ends).at("message").get<std::string>(),
              HasSubstr("ignore_eos is set, and a constraint"));
  Json tool = request("a", 1);
  tool["tools"] = Json::parse(R"([{"function": {"name": "f", "parameters": {"properties": {"a": {"if": {}}}}}}])");
  tool["tool_choice"] = "required";
  EXPECT_EQ(error_of("/v1/chat/completions", tool).at("param"), "tools");
  Json gone = request("a", 1);
  gone["model"] = "gone";
  EXPECT_EQ(chat(gone, 404)["error"]["param"], "model");
  const Json broken = server_->json(post("/v1/chat/completions", "{"), 400)["error"];
  EXPECT_TRUE(broken["param"].is_null());
  EXPECT_TRUE(broken["code"].is_null());
  const Json route = server_->json(post("/v1/nothing", "{}"), 404)["error"];
  EXPECT_EQ(route["message"], "there is no such route");
  EXPECT_TRUE(route["code"].is_null());
  // None of it is in the way of others.
  EXPECT_EQ(metric(*server_, "gpux_running_sequences"), 0);
  EXPECT_TRUE(chat(request("a", 1))["choices"][0]["message"]["content"].is_string());
}

TEST_F(ServeChat, GivesManyTheirOwnAnswers) {
  constexpr int clients = 16;
  std::vector<std::string> alone;
  for (int i = 0; i < clients; ++i) {
    alone.push_back(chat(request("client " + std::to_string(i), i, 40))["choices"][0]["message"]["content"]);
  }
  std::vector<std::string> together(clients);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&, i] { together[i] = text_of(streamed(request("client " + std::to_string(i), i, 40))); });
    }
  }
  EXPECT_EQ(together, alone);
}

TEST_F(ServeChat, WaitsForAReaderThatIsSlow) {
  Json body = request("a long story", 5, 500);
  body["ignore_eos"] = true;
  const std::string whole = chat(body)["choices"][0]["message"]["content"];
  body["stream"] = true;
  RawClient client(server_->port(), 1024);
  ASSERT_TRUE(client.send(post("/v1/chat/completions", body.dump(), "Connection: close\r\n")));
  std::string answer;
  for (int i = 0; i < 3000; ++i) {
    answer += client.receive_some(1);
    if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  answer += client.receive_all();
  // Without the sizes of the chunks, which are lines of their own.
  std::string text, line;
  for (std::istringstream lines(answer.substr(answer.find("\r\n\r\n"))); std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json event = Json::parse(line.substr(6), nullptr, false);
    ASSERT_FALSE(event.is_discarded()) << line;
    text += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole);
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
}

TEST_F(ServeChat, EndsTextsOfAClientThatLeaves) {
  const double generated = metric(*server_, "gpux_generated_tokens_total");
  {
    Json body = request("for nobody", 1, 500);
    body["n"] = 128;
    body["ignore_eos"] = true;
    body["stream"] = true;
    RawClient client(server_->port());
    ASSERT_TRUE(client.send(post("/v1/chat/completions", body.dump())));
    ASSERT_FALSE(client.receive_some(1).empty());
  }
  double running = 1, waiting = 1;
  for (int i = 0; i < 1000 && (running != 0 || waiting != 0); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    running = metric(*server_, "gpux_running_sequences");
    waiting = metric(*server_, "gpux_waiting_sequences");
  }
  EXPECT_EQ(running, 0);
  EXPECT_EQ(waiting, 0);
  EXPECT_LT(metric(*server_, "gpux_generated_tokens_total") - generated, 128 * 500);
  EXPECT_EQ(metric(*server_, "gpux_sequence_slots"), 16);
}

TEST_F(ServeChat, CountsTokens) {
  const double prompt = metric(*server_, "gpux_prompt_tokens_total"),
               hits = metric(*server_, "gpux_prefix_hit_tokens_total");
  const Json first = chat(request("a prompt that comes twice, for the cache", 1));
  const Json second = chat(request("a prompt that comes twice, for the cache", 2));
  const double tokens = first["usage"]["prompt_tokens"];
  EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_GT(metric(*server_, "gpux_prompt_tokens_total"), prompt);
  EXPECT_LT(metric(*server_, "gpux_prompt_tokens_total"), prompt + 2 * tokens);
  EXPECT_GT(metric(*server_, "gpux_prefix_hit_tokens_total"), hits);
  EXPECT_GT(metric(*server_, "gpux_kv_cache_bytes"), 0);
  EXPECT_GT(metric(*server_, "gpux_kv_cache_max_bytes"), 0);
  EXPECT_GT(metric(*server_, "gpux_time_to_first_token_seconds_count"), 0);
  EXPECT_GT(metric(*server_, "gpux_time_between_tokens_seconds_count"), 0);
  EXPECT_EQ(server_->json(get("/v1/models"))["data"][0]["id"], "chatty");
}

// A template is its model's author's: nobody else waits for it.
TEST(ServeSlowTemplate, KeepsNobodyElseWaiting) {
  const Program gpux;
  store_chat_model(gpux, "slow",
                   "{%- for i in range(900) %}{% for j in range(1000) %}{% endfor %}{% endfor -%}"
                   "{%- for message in messages -%}{{ message.content }}{%- endfor -%}");
  store_chat_model(gpux, "quick", plain_template);
  const Serving server(gpux, {"slow", "quick", "--io-threads", "1", "--no-grpc"});
  const auto chat = [](const char* name) {
    return post("/v1/chat/completions",
                Json{{"model", name}, {"max_tokens", 1}, {"messages", {{{"role", "user"}, {"content", "a"}}}}}.dump());
  };
  std::vector<std::unique_ptr<RawClient>> slow;
  constexpr int many = 60;
  for (int i = 0; i < many; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(slow.back()->send(chat("slow")));
  }
  EXPECT_EQ(server.ask(http::get("/health/live")).status, 200);
  EXPECT_EQ(server.ask(chat("quick")).status, 200);
  const auto is_answered = [](const auto& client) { return client->readable(std::chrono::milliseconds(0)); };
  EXPECT_LT(std::count_if(slow.begin(), slow.end(), is_answered), many);
  for (const auto& client : slow) EXPECT_EQ(client->receive().status, 200);
}

// Three requests ask for more texts than there are places.
TEST_F(ServeChat, LeavesRoomForOthersBesideRequestsOfManyTexts) {
  Json many = request("for many", 1, 500);
  many["n"] = 128;
  many["ignore_eos"] = true;
  many["stream"] = true;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(clients.back()->send(post("/v1/chat/completions", many.dump())));
    ASSERT_EQ(clients.back()->receive_some(15), "HTTP/1.1 200 OK");
  }
  const Json single = chat(request("and a single token", 1, 1));
  EXPECT_EQ(single["usage"]["completion_tokens"], 1);
  EXPECT_LE(metric(*server_, "gpux_running_sequences"), 16);
  EXPECT_GT(metric(*server_, "gpux_running_sequences"), 0) << "the others go on";
}

TEST_F(ServeChat, GivesAllTextsOfARequestForMany) {
  Json many = request("for many", 5, 12);
  many["n"] = 40;
  const Json choices = chat(many).at("choices");
  ASSERT_EQ(choices.size(), 40);
  for (int i : {0, 17, 39}) {
    Json one = request("for many", 5 + i, 12);
    EXPECT_EQ(chat(one)["choices"][0]["message"], choices[static_cast<std::size_t>(i)]["message"]) << i;
  }
}

// As the libraries of clients write them: records, hints and answers of other services change nothing.
TEST(ServeClients, MayWriteMembersThatChangeNothing) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"chatty", "--no-grpc"});
  const auto text_of = [&](const Json& body) {
    return server.json(post("/v1/chat/completions", body.dump())).at("choices").at(0).at("message").at("content");
  };
  const Json call{{"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", R"({"a":1})"}}}};
  Json plain{{"messages",
              {{{"role", "user"}, {"content", "a"}},
               {{"role", "assistant"}, {"content", "b"}, {"tool_calls", Json::array({call})}},
               {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "d"}}}},
             {"seed", 3},
             {"temperature", 1.5},
             {"max_tokens", 12}};
  Json written = plain;
  written.update(Json::parse(R"({"store": true, "metadata": {"a": "b"}, "service_tier": "flex", "verbosity": "low",
      "prediction": {"type": "content", "content": "x"}, "stop": null, "tools": null, "audio": null, "documents": [],
      "use_beam_search": false, "colour": "red", "tempratur": 3})"));
  Json& messages = written["messages"];
  messages[0]["content"] = Json::parse(R"([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])");
  messages[0]["id"] = 7;
  messages[1].update(Json::parse(R"({"provider_specific_fields": {"x": [1]}, "reasoning_details": [{}], "refusal": null,
      "annotations": [{"type": "url_citation"}], "function_call": null, "audio": null})"));
  messages[1]["tool_calls"][0]["function"]["arguments"] = {{"a", 1}};
  EXPECT_EQ(text_of(written), text_of(plain));
  messages[1]["content"] = Json::parse(R"([{"type": "refusal", "refusal": "b"}])");
  EXPECT_EQ(text_of(written), text_of(plain));

  const std::string page = server.ask(get("/metrics")).body;
  EXPECT_THAT(page, HasSubstr("gpux_ignored_members_total{member=\"store\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("gpux_ignored_members_total{member=\"cache_control\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("gpux_unknown_members_total 6\n")) << "colour, tempratur and messages[0].id, twice";
}

// The answer is what follows the content of the last message, by each client's own member.
TEST(ServeContinuation, BeginsWithTheLastMessage) {
  const Program gpux;
  store_chat_model(gpux, "chatty", "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}");
  const Serving server(gpux, {"chatty", "--no-grpc"});
  const Json messages =
      Json::parse(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "It is "}])");
  const Json settings{{"model", "chatty"}, {"max_tokens", 8}, {"temperature", 0}};
  const auto ask = [&](Json given, const Json& members, int status = 200) {
    Json body = settings;
    body["messages"] = std::move(given);
    body.update(members);
    return server.json(post("/v1/chat/completions", body.dump()), status);
  };
  Json text = settings;
  text["prompt"] = "<user>a</user><assistant>It is ";
  const Json expected = server.json(post("/v1/completions", text.dump()));
  const Json continued = ask(messages, {{"continue_final_message", true}, {"add_generation_prompt", false}});
  EXPECT_EQ(continued["choices"][0]["message"]["content"], expected["choices"][0]["text"]);
  EXPECT_EQ(continued["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
  Json prefixed = messages;
  prefixed[1]["prefix"] = true;
  EXPECT_EQ(ask(prefixed, Json::object())["choices"][0]["message"]["content"], expected["choices"][0]["text"]);
  const Json of_ollama{{"model", "chatty"}, {"messages", messages},
                       {"stream", false},   {"logprobs", true},
                       {"top_logprobs", 2}, {"options", {{"num_predict", 8}, {"temperature", 0}}}};
  const Json answer = server.json(post("/api/chat", of_ollama.dump()));
  EXPECT_EQ(answer["message"]["content"], expected["choices"][0]["text"]);
  ASSERT_EQ(answer["logprobs"].size(), 8) << answer;
  EXPECT_EQ(answer["logprobs"][0]["top_logprobs"].size(), 2);
  EXPECT_EQ(answer["logprobs"][0]["token"], answer["logprobs"][0]["top_logprobs"][0]["token"]);

  const auto refusal = [&](const Json& given, const Json& members) {
    return ask(given, members, 400)["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(refusal(messages, {{"continue_final_message", true}, {"add_generation_prompt", true}}),
              HasSubstr("continue_final_message and add_generation_prompt are both true"));
  EXPECT_THAT(refusal(messages, {{"continue_final_message", true}, {"guided_regex", "a"}}),
              HasSubstr("continue_final_message is true, and the text has a form"));
  prefixed.push_back({{"role", "user"}, {"content", "b"}});
  EXPECT_THAT(refusal(prefixed, Json::object()),
              HasSubstr("messages[1].prefix is true, and the message is not the last"));
}

// What the template knows decides: this one has a switch, and no levels.
TEST(ServeReasoning, IsAskedForAsClientsDo) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  store_chat_model(gpux, "always", "{#- </think> -#}{% for message in messages %}{{ message.content }}{% endfor %}");
  const Serving server(gpux, {"chatty", "always", "--no-grpc"});
  const auto prompt_tokens = [&](const Json& members) {
    Json body{{"model", "chatty"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
    body.update(members);
    return server.json(post("/v1/chat/completions", body.dump())).at("usage").at("prompt_tokens").get<int>();
  };
  const auto with = [&](bool thinks) {
    return prompt_tokens({{"chat_template_kwargs", {{"enable_thinking", thinks}}}});
  };
  const int thinking = with(true), silent = with(false), usual = prompt_tokens(Json::object());
  ASSERT_NE(thinking, silent);
  ASSERT_NE(thinking, usual);
  for (const char* members :
       {R"({"reasoning_effort": "high"})", R"({"reasoning": {"effort": "low", "summary": "auto"}})",
        R"({"reasoning": {"enabled": true}})", R"({"thinking": {"type": "enabled"}})", R"({"enable_thinking": true})",
        R"({"reasoning_effort": "low", "reasoning": {"effort": "low"}})"}) {
    EXPECT_EQ(prompt_tokens(Json::parse(members)), thinking) << members;
  }
  for (const char* members :
       {R"({"reasoning_effort": "none"})", R"({"reasoning_effort": "minimal"})", R"({"reasoning": {"enabled": false}})",
        R"({"thinking": {"type": "disabled"}})", R"({"enable_thinking": false})",
        R"({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": false}})"}) {
    EXPECT_EQ(prompt_tokens(Json::parse(members)), silent) << members;
  }
  EXPECT_EQ(prompt_tokens(Json::parse(R"({"reasoning_effort": null, "reasoning": {}})")), usual);
  const auto refusal = [&](const char* members) {
    Json body{{"model", "always"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
    body.update(Json::parse(members));
    const Json error = server.json(post("/v1/chat/completions", body.dump()), 400).at("error");
    return error.at("param").get<std::string>() + " | " + error.at("message").get<std::string>();
  };
  EXPECT_EQ(refusal(R"({"reasoning_effort": "none"})"),
            "reasoning_effort | reasoning_effort is 'none', and the model always thinks before it answers; accepted: "
            "null, true");
  EXPECT_THAT(refusal(R"({"reasoning": {"effort": "high"}})"),
              HasSubstr("reasoning.effort is 'high', and the model has no levels of thinking"));
  EXPECT_THAT(refusal(R"({"reasoning_effort": "high", "enable_thinking": false})"),
              HasSubstr("enable_thinking and reasoning_effort are both there, and differ"));
  EXPECT_THAT(refusal(R"({"thinking": {"type": "enabled", "budget_tokens": 5}})"),
              HasSubstr("thinking.budget_tokens: thinking ends where the model ends it"));
  const Json asked{{"model", "always"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}, {"think", false}};
  EXPECT_THAT(server.json(post("/api/chat", asked.dump()), 400).at("error"),
              HasSubstr("think is 'none', and the model always thinks before it answers"));
}

// The address space is full while texts become long: theirs end, and the server goes on.
TEST(ServeTexts, EndWhereKeysAndValuesCannotGrow) {
  if (has_sanitizer) GTEST_SKIP() << "sanitizers reserve addresses of their own";
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"chatty", "--no-grpc"});
  const Json small{{"prompt", "a"}, {"max_tokens", 2}, {"ignore_eos", true}};
  const Json large{{"prompt", std::string(400, 'a')}, {"max_tokens", 100}, {"ignore_eos", true}};
  (void)server.json(post("/v1/completions", small.dump()));
  std::uint64_t pages = 0;
  std::ifstream("/proc/" + std::to_string(server.process()) + "/statm") >> pages;
  const std::uint64_t addresses = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  ASSERT_NE(addresses, 0);
  rlimit before{}, full{};
  ASSERT_EQ(::prlimit(server.process(), RLIMIT_AS, nullptr, &before), 0);
  full = {.rlim_cur = addresses + (512 << 10U), .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(server.process(), RLIMIT_AS, &full, nullptr), 0);
  const Answered refused = server.ask(post("/v1/completions", large.dump()));
  ASSERT_EQ(::prlimit(server.process(), RLIMIT_AS, &before, nullptr), 0);
  EXPECT_THAT(refused.status, AnyOf(429, 503)) << refused.body;
  EXPECT_EQ(server.json(post("/v1/completions", small.dump()))["usage"]["completion_tokens"], 2);
  EXPECT_EQ(server.json(post("/v1/completions", large.dump()))["usage"]["completion_tokens"], 100);
}

// Of glibc's allocator, beside its first: each holds 64 MiB of addresses, of which it uses the beginning.
int arenas_of(pid_t process) {
  constexpr std::uint64_t size = std::uint64_t{64} << 20U;
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  int count = 0;
  std::uint64_t used_to = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    std::string access;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> access;
    if (access == "---p" && begin == used_to && end % size == 0 && end - begin < size) ++count;
    used_to = access == "rw-p" && begin % size == 0 ? end : 0;
  }
  return count;
}

// As `ulimit -v` and systemd's LimitAS set it: threads that each reserve addresses would leave none.
TEST(ServeTexts, LiveWithFewAddressesFromTheStart) {
  if (has_sanitizer) GTEST_SKIP() << "sanitizers reserve addresses of their own";
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit few{.rlim_cur = rlim_t{768} << 20U, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &few), 0);
  const Serving server(gpux, {"chatty", "--no-grpc"});
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 32; ++i) {
    const Json body{
        {"prompt", std::string(400, 'a')}, {"max_tokens", 100}, {"ignore_eos", true}, {"n", i % 2 == 0 ? 1 : 16}};
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(post("/v1/completions", body.dump())));
  }
  for (const auto& client : clients) EXPECT_THAT(client->receive().status, AnyOf(200, 429, 503));
  EXPECT_LE(arenas_of(server.process()), 1);
  EXPECT_EQ(server.ask(http::get("/health/ready")).status, 200);
}

int cached_tokens(const Serving& server, const std::string& key, const std::string& salt = {}) {
  Json body{{"prompt", "a prompt that begins as others do"}, {"max_tokens", 1}};
  if (!salt.empty()) body["cache_salt"] = salt;
  const Answered answer =
      server.ask(post("/v1/completions", body.dump(), key.empty() ? "" : "Authorization: Bearer " + key + "\r\n"));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return Json::parse(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"];
}

// Else a key could find out, token by token, what another one sent.
TEST_F(ServeChat, GivesTheSameTextsWithSeveralEngines) {
  for (const std::string isolation : {"thread", "process"}) {
    SCOPED_TRACE(isolation);
    const Serving several(*gpux_, {"chatty", "--no-grpc", "--workers", "cores:2", "--isolation", isolation});
    std::vector<std::thread> clients;
    std::vector<std::string> texts(8), expected(8);
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&, i] {
        const Json body = request("text " + std::to_string(i), i);
        expected[static_cast<std::size_t>(i)] =
            chat(body).at("choices").at(0).at("message").at("content").get<std::string>();
        texts[static_cast<std::size_t>(i)] = several.json(post("/v1/chat/completions", body.dump()))
                                                 .at("choices")
                                                 .at(0)
                                                 .at("message")
                                                 .at("content")
                                                 .get<std::string>();
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(texts, expected);
    EXPECT_THAT(several.ask(get("/metrics")).body,
                HasSubstr("gpux_sequence_slots{model=\"chatty\",version=\"1.0.0\"} 32"));
    EXPECT_EQ(several.json(get("/slots")).size(), 32);
  }
  for (const char* workers : {"2", "auto"}) {
    const auto refused = gpux_->run({"serve", "chatty", "--port", "0", "--workers", workers});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("accepted for a model that generates text are 1, devices"));
  }
}

TEST(ServeTexts, ReuseKeysAndValuesWithinAnApiKey) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const auto keys = gpux.folder().write("keys.txt", "first-key-123\nsecond-key-456\n");
  const Serving server(gpux, {"chatty", "--no-grpc", "--api-key-file", keys.string()});
  EXPECT_EQ(cached_tokens(server, "first-key-123"), 0);
  EXPECT_GT(cached_tokens(server, "first-key-123"), 0);
  EXPECT_EQ(cached_tokens(server, "second-key-456"), 0);
  EXPECT_GT(cached_tokens(server, "second-key-456"), 0);
  EXPECT_EQ(cached_tokens(server, "first-key-123", "a salt"), 0);
  EXPECT_GT(cached_tokens(server, "first-key-123", "a salt"), 0);
  EXPECT_EQ(cached_tokens(server, "second-key-456", "a salt"), 0);
}

TEST(ServeTexts, ReuseKeysAndValuesByDefaultAndWithASalt) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  {
    const Serving server(gpux, {"chatty", "--no-grpc"});
    EXPECT_EQ(cached_tokens(server, ""), 0);
    EXPECT_GT(cached_tokens(server, ""), 0);
    EXPECT_EQ(cached_tokens(server, "", "a salt"), 0);
    const Json salt{{"prompt", "a"}, {"cache_salt", std::string(1025, 'a')}};
    EXPECT_EQ(server.json(post("/v1/completions", salt.dump()), 400)["error"]["param"], "cache_salt");
  }
  const Serving without(gpux, {"chatty", "--no-grpc", "--no-prefix-caching"});
  EXPECT_EQ(cached_tokens(without, ""), 0);
  EXPECT_EQ(cached_tokens(without, ""), 0);
}

TEST(ServeTexts, CountKeysAndValuesInTheMemoryBudget) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"one=chatty", "other=chatty", "--no-grpc", "--memory-budget", "256MiB"});
  const std::string page = server.ask(get("/metrics")).body;
  std::size_t models = 0;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const bool is_limit = line.starts_with("gpux_kv_cache_limit_bytes "),
               is_model = line.starts_with("gpux_kv_cache_max_bytes{");
    if (!is_limit && !is_model) continue;
    models += is_model ? 1 : 0;
    EXPECT_LE(std::stod(line.substr(line.rfind(' '))), 128.0 * (1 << 20)) << line;
  }
  EXPECT_EQ(models, 2) << page;
  EXPECT_THAT(page, HasSubstr("\ngpux_kv_cache_limit_bytes "));
}

TEST(ServeTexts, GiveKeysAndValuesWhatWorkerProcessesLeave) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  std::vector<std::string> models{"chatty", "--no-grpc", "--memory-budget", "2GiB"};
  for (const std::string name : {"one", "two", "three"}) {
    const std::string file = "name: " + name + "\nmodel: {source: add.onnx}\nruntime: {isolation: process}\n";
    std::filesystem::copy_file(model("add.onnx"),
                               gpux.folder().write(name + "/gpux.yml", file).parent_path() / "add.onnx");
    models.push_back((gpux.folder().path() / name).string());
  }
  const Serving server(gpux, models);
  double limit = 0, server_bytes = 0, worker_bytes = 0;
  std::istringstream page(server.ask(get("/metrics")).body);
  for (std::string line; std::getline(page, line);) {
    const auto add_to = [&](double& sum, const char* name) {
      if (line.starts_with(name)) sum += std::stod(line.substr(line.rfind(' ')));
    };
    add_to(limit, "gpux_kv_cache_limit_bytes ");
    add_to(server_bytes, "process_resident_memory_bytes ");
    add_to(worker_bytes, "gpux_worker_resident_memory_bytes{");
  }
  ASSERT_GT(limit, 0);
  ASSERT_GT(worker_bytes, 0);
  // The processes have grown a little since the last load.
  EXPECT_LT(2 * limit + server_bytes + worker_bytes / 2, 2.0 * (1 << 30));
}

TEST(ServeCompletions, RepeatAndScoreThePrompt) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"chatty", "--no-grpc"});
  const Json body{{"prompt", "abcd?"}, {"max_tokens", 4}, {"temperature", 0}, {"ignore_eos", true}, {"logprobs", 2}};
  const auto choice = [&](Json asked) { return server.json(post("/v1/completions", asked.dump()))["choices"][0]; };
  const auto with = [&](const Json& members) {
    Json changed = body;
    changed.update(members);
    return changed;
  };
  const Json plain = choice(body), echoed = choice(with({{"echo", true}}));
  const std::string text = plain["text"];
  EXPECT_EQ(echoed["text"], "abcd?" + text);
  const Json& scores = echoed["logprobs"];
  const std::size_t count = scores["tokens"].size();
  ASSERT_EQ(count, 5 + 4) << "tokens are characters: " << scores;
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(scores["text_offset"][i], i);
  EXPECT_TRUE(scores["token_logprobs"][0].is_null());
  EXPECT_TRUE(scores["top_logprobs"][0].is_null());
  for (std::size_t i = 1; i < count; ++i) EXPECT_LE(scores["token_logprobs"][i], 0);
  EXPECT_EQ(scores["top_logprobs"][1].size(), 2);
  EXPECT_EQ(scores["tokens"][2], "c");
  // The vocabulary has no space.
  const Json gaps = choice(with({{"prompt", "a bb c"}, {"echo", true}}));
  const std::vector<int> offsets = gaps["logprobs"]["text_offset"];
  EXPECT_EQ(std::vector<int>(offsets.begin(), offsets.begin() + 7), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));

  // What evaluations of models ask for: the scores of a prompt alone.
  const Json scored = choice(with({{"echo", true}, {"max_tokens", 0}}));
  EXPECT_EQ(scored["text"], "abcd?");
  EXPECT_EQ(scored["finish_reason"], "length");
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(scored["logprobs"]["token_logprobs"][i], scores["token_logprobs"][i]) << i;
  }
  const Json of_tokens = choice(with({{"echo", true}, {"max_tokens", 0}, {"prompt", Json::parse("[20, 21]")}}));
  EXPECT_EQ(of_tokens["logprobs"]["tokens"].size(), 2);
  EXPECT_EQ(choice(with({{"max_tokens", 0}}))["text"], "");
  Json unscored = with({{"echo", true}, {"max_tokens", 0}});
  unscored.erase("logprobs");
  EXPECT_EQ(choice(unscored)["text"], "abcd?");
  EXPECT_TRUE(choice(unscored)["logprobs"].is_null());

  // vLLM's form.
  const Json numbered = choice(with({{"prompt_logprobs", 1}}))["prompt_logprobs"];
  ASSERT_EQ(numbered.size(), 5);
  EXPECT_TRUE(numbered[0].is_null());
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_LE(numbered[i].size(), 2);
    const Json& own = numbered[i].front();
    EXPECT_EQ(own["logprob"], scores["token_logprobs"][i]);
    EXPECT_EQ(own["decoded_token"], scores["tokens"][i]);
    EXPECT_GE(own["rank"], 1);
    EXPECT_EQ(own["rank"] == 1, numbered[i].size() == 1);
  }
  const Json of_chat = server.json(post(
      "/v1/chat/completions",
      R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "prompt_logprobs": 0, "temperature": 0})"));
  EXPECT_EQ(of_chat["prompt_logprobs"].size(), of_chat["usage"]["prompt_tokens"]);

  const std::string stream = server.ask(post("/v1/completions", with({{"echo", true}, {"stream", true}}).dump())).body;
  EXPECT_THAT(stream,
              HasSubstr(R"("text":"abcd?","logprobs":{"tokens":["a","b","c","d","?"],"token_logprobs":[null,)"));
  EXPECT_THAT(stream, HasSubstr(R"("text_offset":[5]})"));

  const auto refusal = [&](const Json& members) {
    const auto answer = server.ask(post("/v1/completions", with(members).dump()));
    EXPECT_EQ(answer.status, 400) << answer.body;
    return Json::parse(answer.body)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(refusal({{"prompt_logprobs", 1}, {"stream", true}}),
            "prompt_logprobs is for answers with \"stream\": false");
  EXPECT_EQ(refusal({{"prompt_logprobs", 1}, {"echo", true}}),
            "prompt_logprobs is 1, and with echo logprobs is 2; accepted: equal ones");
  EXPECT_EQ(refusal({{"max_tokens", 0}, {"min_tokens", 1}}), "min_tokens is 1, and max_tokens 0");
  EXPECT_EQ(refusal({{"max_tokens", 0}, {"guided_regex", "a"}}), "guided_regex: no text is made with max_tokens 0");
  EXPECT_EQ(refusal({{"echo", true}, {"suffix", "x"}}), "echo and suffix are both there; accepted: one of them");
  EXPECT_THAT(refusal({{"prompt_logprobs", 21}}), HasSubstr("prompt_logprobs"));
}

TEST(ServeCompletions, FillInTheMiddle) {
  const Program gpux;
  store_chat_model(gpux, "coder", plain_template, R"({"eos_token_id": 2})",
                   {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>"});
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"coder", "chatty", "--no-grpc"});
  const auto tokens_of = [&](const std::string& text) {
    return server.json(post("/tokenize", Json{{"model", "coder"}, {"content", text}}.dump())).at("tokens");
  };
  // The same prompt by its tokens. The markers follow the end of reasoning.
  const int marker = std::stoi(end_of_thinking) + 1;
  Json prompt = Json::array({marker});
  for (const Json& token : tokens_of("a=")) prompt.push_back(token);
  prompt.push_back(marker + 1);
  for (const Json& token : tokens_of("+c")) prompt.push_back(token);
  prompt.push_back(marker + 2);
  Json asked = {{"model", "coder"}, {"prompt", "a="}, {"suffix", "+c"}, {"max_tokens", 6}, {"seed", 1}};
  asked["add_special_tokens"] = false;
  const Json filled = server.json(post("/v1/completions", asked.dump()));
  asked.erase("suffix");
  asked["prompt"] = prompt;
  const Json same = server.json(post("/v1/completions", asked.dump()));
  EXPECT_EQ(filled.at("usage").at("prompt_tokens"), prompt.size());
  // All but the last token of the same prompt are in the cache.
  EXPECT_EQ(same.at("usage").at("prompt_tokens_details").at("cached_tokens"), prompt.size() - 1);
  EXPECT_EQ(filled.at("choices").at(0).at("text"), same.at("choices").at(0).at("text"));
  const Json of_ollama = server.json(
      post("/api/generate",
           R"({"model": "coder", "prompt": "a=", "suffix": "+c", "stream": false, "options": {"num_predict": 6}})"));
  EXPECT_GE(of_ollama.at("prompt_eval_count"), prompt.size());

  asked["suffix"] = "b";
  const Json error = server.json(post("/v1/completions", asked.dump()), 400).at("error");
  EXPECT_EQ(error.at("param"), "suffix");
  EXPECT_EQ(error.at("message"), "suffix goes with a text as prompt, and not with tokens");
  const char* without = R"({"model": "chatty", "prompt": "a", "suffix": "b"})";
  EXPECT_THAT(server.json(post("/v1/completions", without), 400).at("error").at("message").get<std::string>(),
              HasSubstr("the vocabulary of 'chatty' has no tokens that mark a middle"));
}

TEST(ServeCompletions, SayWhatAModelWithoutATemplateCanDo) {
  const Program gpux;
  store_chat_model(gpux, "plain", "");
  const Serving server(gpux, {"plain", "--no-grpc"});
  const Json chat{{"messages", {{{"role", "user"}, {"content", "a"}}}}};
  EXPECT_EQ(server.json(post("/v1/chat/completions", chat.dump()), 400)["error"]["message"],
            "'plain' takes no messages: it has no chat template; POST /v1/completions continues a text as it is");
  const Json completion{{"prompt", "a"}, {"max_tokens", 3}, {"ignore_eos", true}};
  EXPECT_EQ(server.json(post("/v1/completions", completion.dump()))["usage"]["completion_tokens"], 3);
}

}  // namespace
}  // namespace gpux::test
