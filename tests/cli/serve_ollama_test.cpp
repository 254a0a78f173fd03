// gpux serve with a tiny decoder and a tiny encoder, as Ollama's clients meet it.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/chat_model.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::HasSubstr;

class ServeOllama : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    gpux_ = new Program;
    store_chat_model(*gpux_, "chatty", plain_template);
    const Outcome imported =
        gpux_->run({"import", GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls", "-t", "vectors"});
    ASSERT_EQ(imported.code, 0) << imported.err;
    server_ = new Serving(*gpux_, {"chatty", "vectors", "--no-grpc", "--strict-requests"});
  }

  static void TearDownTestSuite() {
    delete server_;
    delete gpux_;
  }

  static Json ask(const std::string& route, const Json& body, int status = 200) {
    return server_->json(post("/api/" + route, body.dump()), status);
  }

  static std::vector<Json> streamed(const std::string& route, const Json& body) {
    const Answered answer = server_->ask(post("/api/" + route, body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/x-ndjson");
    std::vector<Json> lines;
    std::istringstream all(answer.body);
    for (std::string line; std::getline(all, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  static Json chat_of(const std::string& text, int seed, Json options = Json::object()) {
    options["seed"] = seed;
    options["temperature"] = 1.5;
    if (!options.contains("num_predict")) options["num_predict"] = 24;
    return {{"model", "chatty:latest"}, {"messages", {{{"role", "user"}, {"content", text}}}}, {"options", options}};
  }

  static void expect_counts(const Json& last) {
    EXPECT_EQ(last.at("done"), true);
    EXPECT_GT(last.at("prompt_eval_count"), 0);
    EXPECT_GT(last.at("eval_count"), 0);
    EXPECT_GT(last.at("eval_duration"), 0);
    EXPECT_GE(last.at("total_duration"), last.at("eval_duration"));
    EXPECT_EQ(last.at("load_duration"), 0);
  }

  static Program* gpux_;
  static Serving* server_;
};

Program* ServeOllama::gpux_ = nullptr;
Serving* ServeOllama::server_ = nullptr;

TEST_F(ServeOllama, ChatsInLinesOrWhole) {
  for (int seed = 0; seed < 3; ++seed) {
    Json body = chat_of("say something", seed);
    const std::vector<Json> lines = streamed("chat", body);
    std::string text;
    for (const Json& line : lines) {
      EXPECT_EQ(line.at("model"), "chatty:latest");
      EXPECT_EQ(line.at("message").at("role"), "assistant");
      EXPECT_EQ(line.at("done"), &line == &lines.back());
      text += line.at("message").at("content");
    }
    expect_counts(lines.back());
    body["stream"] = false;
    const Json whole = ask("chat", body);
    expect_counts(whole);
    EXPECT_EQ(whole.at("message").at("content"), text);
    EXPECT_EQ(whole.at("done_reason"), lines.back().at("done_reason"));
    EXPECT_THAT(whole.at("created_at").get<std::string>(), testing::ContainsRegex("^20[0-9-]+T[0-9:]+\\.[0-9]{9}Z$"));
    // The same model, settings and template as for OpenAI's clients.
    const Json other{
        {"model", "chatty"}, {"messages", body["messages"]}, {"seed", seed}, {"temperature", 1.5}, {"max_tokens", 24}};
    EXPECT_EQ(server_->json(post("/v1/chat/completions", other.dump()))["choices"][0]["message"]["content"], text);
  }
}

TEST_F(ServeOllama, GeneratesWithTheTemplateOrRaw) {
  Json body{{"model", "chatty"}, {"prompt", "go on"}, {"options", {{"seed", 2}, {"num_predict", 12}}}};
  std::string text;
  for (const Json& line : streamed("generate", body)) text += line.at("response");
  body["stream"] = false;
  Json whole = ask("generate", body);
  EXPECT_EQ(whole.at("response"), text);
  EXPECT_FALSE(whole.at("context").empty());
  expect_counts(whole);
  Json as_chat{{"model", "chatty"}, {"stream", false}, {"messages", {{{"role", "user"}, {"content", "go on"}}}}};
  as_chat["options"] = body["options"];
  EXPECT_EQ(ask("chat", as_chat).at("message").at("content"), text);
  body["system"] = "be brief";
  EXPECT_GT(ask("generate", body).at("prompt_eval_count"), whole.at("prompt_eval_count"));
  body.erase("system");
  body["raw"] = true;
  EXPECT_LT(ask("generate", body).at("prompt_eval_count"), whole.at("prompt_eval_count"));
  // Nothing to generate: the model is loaded.
  EXPECT_EQ(ask("generate", {{"model", "chatty"}, {"keep_alive", "5m"}}).at("done_reason"), "load");
  EXPECT_EQ(ask("chat", {{"model", "chatty"}, {"messages", Json::array()}, {"keep_alive", -1}}).at("done_reason"),
            "load");
}

TEST_F(ServeOllama, ContinuesAContext) {
  Json body{{"model", "chatty"}, {"prompt", "one"}, {"options", {{"seed", 2}, {"num_predict", 6}}}, {"stream", false}};
  const Json first = ask("generate", body);
  const std::size_t tokens = first.at("context").size();
  EXPECT_GE(tokens, first.at("prompt_eval_count").get<std::size_t>() + first.at("eval_count").get<std::size_t>());
  body["prompt"] = "two";
  const Json alone = ask("generate", body);
  body["context"] = first.at("context");
  const Json second = ask("generate", body);
  EXPECT_EQ(second.at("prompt_eval_count"), tokens + alone.at("prompt_eval_count").get<std::size_t>());
  EXPECT_TRUE(std::equal(first.at("context").begin(), first.at("context").end(), second.at("context").begin()));
  body.erase("stream");
  const std::vector<Json> lines = streamed("generate", body);
  EXPECT_EQ(lines.back().at("context"), second.at("context"));
  EXPECT_FALSE(lines.front().contains("context"));
  const Json raw{
      {"model", "chatty"}, {"prompt", "a"}, {"raw", true}, {"stream", false}, {"options", {{"num_predict", 2}}}};
  EXPECT_EQ(ask("generate", raw).at("context"), Json::array());
  body["context"] = std::vector<int>(700, 5);
  EXPECT_THAT(ask("generate", body, 400).at("error").get<std::string>(), HasSubstr("the prompt has 7"));
}

TEST_F(ServeOllama, WritesFormsAndCallsTools) {
  Json body = chat_of("who?", 4, {{"num_predict", 300}});
  body["stream"] = false;
  body["format"] =
      Json::parse(R"({"type": "object", "properties": {"z": {"type": "integer", "minimum": 10, "maximum": 99},
    "a": {"type": "boolean"}}, "required": ["z", "a"], "additionalProperties": false})");
  const std::string text = ask("chat", body).at("message").at("content");
  EXPECT_EQ(Json::parse(text).size(), 2) << text;
  EXPECT_LT(text.find("\"z\""), text.find("\"a\"")) << text;
  body.erase("format");
  body["tools"] =
      Json::parse(R"([{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}])");
  EXPECT_TRUE(ask("chat", body).at("message").at("content").is_string());
  // Earlier calls have objects as arguments.
  body["messages"] = Json::parse(R"([{"role": "user", "content": "a"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "now", "arguments": {"z": 1, "a": 2}}}]},
    {"role": "tool", "tool_name": "now", "content": "12"}])");
  EXPECT_TRUE(ask("chat", body).at("message").at("content").is_string());
  body["messages"][1]["tool_calls"][0]["function"]["arguments"] = R"({"z": 1, "a)";
  EXPECT_TRUE(ask("chat", body).at("message").at("content").is_string());
  body["think"] = false;
  const Json thinks = ask("chat", body);
  body.erase("think");
  EXPECT_GT(thinks.at("prompt_eval_count"), ask("chat", body).at("prompt_eval_count"));
}

TEST_F(ServeOllama, MakesVectors) {
  const Json two = ask("embed", {{"model", "vectors:latest"}, {"input", {"a", "b"}}});
  EXPECT_EQ(two.at("model"), "vectors:latest");
  ASSERT_EQ(two.at("embeddings").size(), 2);
  EXPECT_GT(two.at("prompt_eval_count"), 0);
  EXPECT_EQ(ask("embed", {{"model", "vectors"}, {"input", "a"}}).at("embeddings").at(0), two.at("embeddings").at(0));
  EXPECT_EQ(server_->json(post("/v1/embeddings", R"({"model": "vectors", "input": "a"})"))["data"][0]["embedding"],
            two.at("embeddings").at(0));
  EXPECT_EQ(ask("embeddings", {{"model", "vectors"}, {"prompt", "a"}}).at("embedding").size(),
            two.at("embeddings").at(0).size());
  // Options of chats change no vector, but for the context, which cuts texts.
  const auto embed = [](const char* options) {
    return ask("embed", {{"model", "vectors"}, {"input", "a b c d e f"}, {"options", Json::parse(options)}});
  };
  const Json whole = embed("{}");
  const Json same = embed(R"({"num_ctx": 100000, "temperature": 0.5, "mirostat": 1, "num_gpu": 1, "num_thread": 2})");
  EXPECT_EQ(same.at("embeddings"), whole.at("embeddings"));
  const Json cut = embed(R"({"num_ctx": 4})");
  EXPECT_EQ(cut.at("prompt_eval_count"), 4);
  EXPECT_NE(cut.at("embeddings"), whole.at("embeddings"));
  const Json refused{{"model", "vectors"}, {"input", "a b c"}, {"truncate", false}, {"options", {{"num_ctx", 4}}}};
  EXPECT_EQ(ask("embed", refused, 400).at("error"), "the text has 5 tokens; accepted: at most 4");
}

TEST_F(ServeOllama, TellsOfItsModels) {
  const Json tags = server_->json(get("/api/tags")).at("models");
  ASSERT_EQ(tags.size(), 2);
  EXPECT_EQ(tags[0].at("name"), "chatty:latest");
  EXPECT_GT(tags[0].at("size"), 0);
  EXPECT_EQ(tags[0].at("details").at("format"), "onnx");
  EXPECT_EQ(tags[0].at("details").at("family"), "qwen3");
  const Json loaded = server_->json(get("/api/ps")).at("models");
  ASSERT_EQ(loaded.size(), 2);
  EXPECT_EQ(loaded[0].at("context_length"), 640);
  const Json shown = ask("show", {{"model", "chatty:latest"}});
  EXPECT_EQ(shown.at("template"), plain_template);
  EXPECT_EQ(shown.at("model_info").at("qwen3.context_length"), 640);
  EXPECT_EQ(shown.at("capabilities"), Json({"completion", "tools", "thinking"}));
  EXPECT_EQ(ask("show", {{"name", "vectors"}}).at("capabilities"), Json::array({"embedding"}));
  EXPECT_TRUE(server_->json(get("/api/version")).at("version").is_string());
}

// Its list of models prints the first twelve digits.
TEST_F(ServeOllama, AnswersOllamasOwnProgram) {
  for (const char* method : {"GET", "HEAD"}) {
    RawClient client(server_->port());
    const bool is_head = std::string_view(method) == "HEAD";
    const Answered alive = client.ask(std::string(method) + " / HTTP/1.1\r\nHost: localhost\r\n\r\n", is_head);
    EXPECT_EQ(alive.status, 200);
    EXPECT_EQ(alive.body, is_head ? "" : "Ollama is running");
    EXPECT_EQ(alive.header("content-type"), "text/plain; charset=utf-8");
  }
  const Json tags = server_->json(get("/api/tags")).at("models"), loaded = server_->json(get("/api/ps")).at("models");
  for (std::size_t i = 0; i < tags.size(); ++i) {
    EXPECT_THAT(tags[i].at("digest").get<std::string>(), testing::MatchesRegex("[0-9a-f]{64}"));
    EXPECT_EQ(tags[i].at("digest"), loaded[i].at("digest"));
  }
  EXPECT_NE(tags[0].at("digest"), tags[1].at("digest"));
  const Json images = gpux_->run({"images", "--json"}).json();
  EXPECT_THAT(images.dump(), HasSubstr(tags[0].at("digest").get<std::string>().substr(0, 12)));
  const Json empty = Json::parse(R"({"model": "chatty", "name": "", "system": "", "template": "", "verbose": false,
    "options": null})");
  EXPECT_EQ(ask("show", empty).at("template"), plain_template);
  Json loads = Json::parse(R"({"model": "chatty", "prompt": "", "suffix": "", "system": "", "template": "",
    "options": {}, "shift": false, "truncate": false})");
  EXPECT_EQ(ask("generate", loads).at("done_reason"), "load");
  EXPECT_EQ(server_->json(get("/api/nothing"), 404).at("error"), "there is no such route");
}

// As langchain-ollama, editors and the libraries of other languages write them.
TEST_F(ServeOllama, AcceptsOptionsThatChangeNothing) {
  const auto text_of = [](const Json& body) {
    Json whole = body;
    whole["stream"] = false;
    return ask("chat", whole).at("message").at("content");
  };
  const Json written =
      Json::parse(R"({"num_ctx": 100000, "num_gpu": 99, "num_thread": 8, "num_batch": 512, "numa": false,
      "mirostat": 0, "mirostat_eta": 0.1, "mirostat_tau": 5.0, "repeat_last_n": 64, "tfs_z": 1.0, "use_mmap": true,
      "min_p": null, "stop": null})");
  EXPECT_EQ(text_of(chat_of("a", 7, written)), text_of(chat_of("a", 7)));
  const Json version = server_->json(get("/api/version"));
  EXPECT_EQ(version.at("version"), "0.12.0");
  EXPECT_TRUE(version.at("gpux").is_string());
}

// The penalty may be the model's own, which no request names.
TEST(ServeClients, SayHowManyTokensThePenaltyCounts) {
  const Program gpux;
  store_chat_model(gpux, "penal", plain_template,
                   R"({"eos_token_id": 2, "do_sample": true, "repetition_penalty": 50})");
  const Serving server(gpux, {"penal", "--no-grpc"});
  const auto text_of = [&](Json options) {
    options.update({{"num_predict", 40}, {"seed", 1}});
    const Json body{{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"stream", false}, {"options", options}};
    return server.json(post("/api/chat", body.dump())).at("message").at("content").get<std::string>();
  };
  const std::string of_all = text_of(Json::object()), of_none = text_of({{"repeat_penalty", 1}});
  EXPECT_NE(of_all, of_none);
  EXPECT_EQ(text_of({{"repeat_last_n", -1}}), of_all);
  EXPECT_EQ(text_of({{"repeat_last_n", 10'000}}), of_all);
  EXPECT_EQ(text_of({{"repeat_last_n", 0}}), of_none);
  EXPECT_NE(text_of({{"repeat_last_n", 1}}), of_all);
}

// Of every route that reads a table of fields.
TEST(ServeClients, MayWriteMembersThatNobodyKnows) {
  const Program gpux;
  const Outcome imported =
      gpux.run({"import", GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls", "-t", "vectors"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Serving server(gpux, {"vectors", "--no-grpc"});
  for (const auto& [path, body] : std::initializer_list<std::pair<const char*, Json>>{
           {"/v1/embeddings", {{"input", "a"}}},
           {"/api/embed", {{"input", "a"}}},
           {"/api/embeddings", {{"prompt", "a"}}},
           {"/api/show", {{"model", "vectors"}}},
           {"/embed", {{"inputs", "a"}}},
           {"/similarity", {{"inputs", {{"source_sentence", "a"}, {"sentences", {"b"}}}}}},
           {"/tokenize", {{"inputs", "a"}}},
           {"/decode", {{"ids", {3, 4}}}}}) {
    Json written = body;
    written["colour"] = "red";
    EXPECT_EQ(server.json(post(path, written.dump()), 200).is_null(), false) << path;
  }
}

TEST_F(ServeOllama, RefusesByName) {
  const Json chat = chat_of("a", 1), prompt{{"model", "chatty"}, {"prompt", "a"}};

  struct {
    const char* route;
    const char* change;
    const char* reason;
  } const cases[]{
      {"chat", R"({"options": {"colour": 1}})", "options.colour is not known; accepted: f16_kv, frequency_penalty"},
      {"chat", R"({"options": {"mirostat": 2}})", "options.mirostat: there is no such sampling here; accepted: 0"},
      {"chat", R"({"options": {"rope_frequency_base": 2}})", "options.rope_frequency_base: the model's own is used"},
      {"chat", R"({"top_logprobs": 2})", "top_logprobs is for answers with logprobs: true"},
      {"chat", R"({"options": {"num_ctx": 4}})", "accepted: fewer than the 4 of the context"},
      {"chat", R"({"options": {"repeat_last_n": -2}})", "options.repeat_last_n is no number of tokens; accepted: -1"},
      {"chat", R"({"options": {"temperature": -1}})", "temperature is -1"},
      {"chat", R"({"keep_alive": 0, "messages": []})",
       "keep_alive is 0: models stay loaded here; accepted with gpux serve --idle-unload"},
      {"generate", R"({"keep_alive": "0s", "prompt": ""})", "keep_alive is 0"},
      {"chat", R"({"keep_alive": "soon"})", "keep_alive is neither a number of seconds nor a duration"},
      {"chat", R"({"messages": [{"role": "user", "content": "a", "images": ["AA=="]}]})", "messages[0].images: models"},
      {"chat", R"({"messages": [{"role": "king", "content": "a"}]})", "messages[0].role is 'king'"},
      {"chat", R"({"format": "xml"})", "format is \"xml\"; accepted: \"json\", or a JSON schema"},
      {"chat", R"({"think": "much"})", "think is 'much'; accepted: low, medium, high"},
      {"chat", R"({"colour": 1})", "colour is not known"},
      {"chat", R"({"truncate": true})", "truncate: nothing is left out of a prompt; accepted: false"},
      {"show", R"({"model": "chatty", "system": "b"})", "system: a model is shown as it is served"},
      {"show", R"({"model": "chatty", "options": {"a": 1}})", "options: a model is shown as it is served"},
      {"generate", R"({"suffix": "b"})", "suffix: the vocabulary of 'chatty' has no tokens that mark a middle"},
      {"generate", R"({"suffix": "b", "system": "c"})", "suffix and system are both there"},
      {"generate", R"({"template": "b"})", "template: the model's own is used"},
      {"generate", R"({"images": ["AA=="]})", "images: models that generate text take no images"},
      {"generate", R"({"context": 1})", "context is no list of tokens"},
      {"generate", R"({"context": [1, -1]})", "context[1] is no token's number"},
      {"generate", R"({"context": [1, 2, 5000]})", "context[2] is 5000; accepted: the numbers of the model's"},
      {"generate", R"({"raw": true, "context": [1]})", "raw and context are both there"},
      {"generate", R"({"raw": true, "system": "b"})", "raw and system are both there"},
      {"embed", R"({"input": []})", "input is empty"},
  };

  for (const auto& [route, change, reason] : cases) {
    Json body = std::string_view(route) == "chat"       ? chat
                : std::string_view(route) == "generate" ? prompt
                                                        : Json::object();
    body.update(Json::parse(change));
    EXPECT_THAT(ask(route, body, 400).at("error").get<std::string>(), HasSubstr(reason)) << change;
  }
  EXPECT_THAT(ask("chat", {{"model", "gone"}, {"messages", Json::array()}}, 404).at("error").get<std::string>(),
              HasSubstr("gone"));
  EXPECT_THAT(ask("generate", {{"model", "vectors"}, {"prompt", "a"}}, 400).at("error").get<std::string>(),
              HasSubstr("'vectors' generates no text; chatty does"));
  for (const auto& [route, text] : {std::pair("embed", "input"), std::pair("embeddings", "prompt")}) {
    EXPECT_THAT(ask(route, {{"model", "chatty"}, {text, "a"}}, 400).at("error").get<std::string>(),
                HasSubstr("'chatty' makes no dense vectors of texts: it generates text, and has no hidden states as an "
                          "output; vectors does"));
  }
}

TEST_F(ServeOllama, UnloadsIdleModels) {
  const Serving server(*gpux_, {"chatty", "--idle-unload", "1h"});
  const auto loaded = [&] { return server.json(get("/api/ps")).at("models"); };
  const auto ask_server = [&](const char* route, Json body) {
    body["model"] = "chatty";
    body["stream"] = false;
    return server.json(post(std::string("/api/") + route, body.dump()));
  };
  ASSERT_EQ(loaded().size(), 1U);
  EXPECT_LT(loaded().at(0).at("expires_at").get<std::string>(), "9999");
  EXPECT_EQ(ask_server("generate", {{"prompt", ""}, {"keep_alive", -1}}).at("done_reason"), "load");
  EXPECT_EQ(loaded().at(0).at("expires_at"), "9999-12-31T23:59:59Z");
  const auto waits_until_gone = [&] {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!loaded().empty() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return loaded().empty();
  };
  // As `ollama stop` asks.
  EXPECT_EQ(ask_server("generate", {{"keep_alive", 0}}).at("done_reason"), "unload");
  EXPECT_TRUE(waits_until_gone());
  EXPECT_EQ(ask_server("chat", {{"messages", Json::array()}, {"keep_alive", "0s"}}).at("done_reason"), "unload");
  EXPECT_TRUE(loaded().empty()) << "it is not loaded to be unloaded";
  const Json body{{"prompt", "go on"}, {"keep_alive", 0}, {"options", {{"num_predict", 3}}}};
  EXPECT_EQ(ask_server("generate", body).at("done"), true) << "the next request loads it";
  EXPECT_TRUE(waits_until_gone());
}

// As `ollama serve` does: no model is named, and each is loaded when a request names it.
TEST_F(ServeOllama, ServesTheStore) {
  const Serving server(*gpux_, {"--no-grpc"});
  const auto names_of = [](const Json& models, const char* member) {
    std::vector<std::string> names;
    for (const Json& one : models) names.push_back(one.at(member));
    return names;
  };
  EXPECT_THAT(server.log(), HasSubstr("2 models of the store, each loaded when a request names it"));
  EXPECT_EQ(names_of(server.json(get("/api/tags")).at("models"), "name"),
            (std::vector<std::string>{"chatty:latest", "vectors:latest"}));
  EXPECT_EQ(names_of(server.json(get("/v1/models")).at("data"), "id"), (std::vector<std::string>{"chatty", "vectors"}));
  EXPECT_TRUE(server.json(get("/api/ps")).at("models").empty());
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  EXPECT_THAT(server.json(post("/v1/embeddings", R"({"input": "a"})"), 400).dump(),
              HasSubstr("name a model: chatty, vectors"));
  EXPECT_THAT(
      server
          .json(post("/v1/chat/completions", R"({"model": "gone", "messages": [{"role": "user", "content": "a"}]})"),
                404)
          .dump(),
      HasSubstr("gone"));
  const Json chat{{"model", "chatty:latest"},
                  {"stream", false},
                  {"messages", {{{"role", "user"}, {"content", "a"}}}},
                  {"options", {{"num_predict", 2}}}};
  EXPECT_EQ(server.json(post("/api/chat", chat.dump())).at("done"), true);
  EXPECT_EQ(names_of(server.json(get("/api/ps")).at("models"), "name"), (std::vector<std::string>{"chatty:latest"}));
  EXPECT_EQ(server.json(post("/api/show", R"({"model": "vectors"})")).at("capabilities"), Json::array({"embedding"}));
  EXPECT_EQ(server.json(post("/v1/embeddings", R"({"model": "vectors", "input": "a"})")).at("data").size(), 1U);
  EXPECT_EQ(names_of(server.json(get("/v1/models")).at("data"), "id"), (std::vector<std::string>{"chatty", "vectors"}));
}

std::string with_body(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& fields = {}) {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + fields + "\r\n" + body;
}

std::vector<std::string> stored_names(const Serving& server) {
  std::vector<std::string> names;
  const Json tags = server.json(get("/api/tags"));
  for (const Json& one : tags.at("models")) names.push_back(one.at("name"));
  return names;
}

TEST_F(ServeOllama, CopiesCreatesAndDeletesModels) {
  const Serving server(*gpux_, {"--no-grpc"});
  const auto change = [&](const char* route, const Json& body, int status = 200) {
    const Answered answer = server.ask(post(std::string("/api/") + route, body.dump()));
    EXPECT_EQ(answer.status, status) << answer.body;
    return answer.body;
  };
  EXPECT_EQ(change("copy", {{"source", "chatty"}, {"destination", "other"}}), "");
  EXPECT_EQ(stored_names(server), (std::vector<std::string>{"chatty:latest", "other:latest", "vectors:latest"}));
  Json prompt{{"model", "other"}, {"prompt", "a"}, {"stream", false}, {"options", {{"num_predict", 4}}}};
  EXPECT_EQ(server.json(post("/api/generate", prompt.dump())).at("done"), true);
  // Settings of a model that another one has: with them, the text is always the same.
  const Json calm{{"model", "calm"}, {"from", "other:latest"}, {"parameters", {{"temperature", 0}, {"top_k", 1}}}};
  EXPECT_THAT(change("create", calm), testing::EndsWith("{\"status\":\"success\"}\n"));
  prompt["model"] = "calm";
  const Json text = server.json(post("/api/generate", prompt.dump()));
  prompt["options"]["temperature"] = 0;
  prompt["model"] = "other";
  EXPECT_EQ(server.json(post("/api/generate", prompt.dump())).at("response"), text.at("response"));
  // Loaded models go with their names.
  for (const char* name : {"calm", "other:latest"}) {
    EXPECT_EQ(server.ask(with_body("DELETE", "/api/delete", Json{{"model", name}}.dump())).status, 200);
  }
  EXPECT_EQ(stored_names(server), (std::vector<std::string>{"chatty:latest", "vectors:latest"}));
  EXPECT_EQ(server.ask(post("/api/generate", prompt.dump())).status, 404);
  EXPECT_THAT(server.json(post("/api/generate", R"({"model": "gone", "prompt": "a"})"), 404).dump(),
              HasSubstr("no model 'gone' is stored; stored are: chatty, vectors; 'gpux pull ORG/NAME' stores one"));
  EXPECT_TRUE(server.json(get("/api/ps")).at("models").empty());
  const std::string page = server.ask(get("/metrics")).body;
  EXPECT_THAT(page, HasSubstr("gpux_store_jobs_total{kind=\"create\",end=\"succeeded\"} 1"));
  EXPECT_THAT(page, HasSubstr("gpux_store_jobs{kind=\"pull\"} 0"));
}

TEST_F(ServeOllama, KeepsFilesForModels) {
  const Serving server(*gpux_, {"--no-grpc"});
  const std::string digest = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";  // of "x"
  const auto blob = [&](const char* method, const std::string& name, const std::string& body) {
    RawClient client(server.port());
    return client.ask(with_body(method, "/api/blobs/" + name, body), std::string_view(method) == "HEAD");
  };
  EXPECT_EQ(blob("HEAD", digest, "").status, 404);
  EXPECT_EQ(blob("POST", digest, "x").status, 201);
  EXPECT_EQ(blob("HEAD", digest, "").status, 200);
  EXPECT_THAT(blob("POST", digest, "y").body,
              HasSubstr("the body has the digest sha256:a1fce4363854ff888cff4b8e7875d600"));
  EXPECT_EQ(blob("POST", "sha256:1", "x").status, 400);
  const Json bad{{"model", "bad"}, {"files", {{"model.gguf", digest}}}, {"stream", false}};
  const Json refused = server.json(post("/api/create", bad.dump()), 422);
  EXPECT_THAT(refused.at("error").get<std::string>(), HasSubstr("model.gguf"));
  EXPECT_THAT(refused.dump(), testing::Not(HasSubstr(gpux_->home().string())));
  EXPECT_THAT(server.ask(get("/metrics")).body, HasSubstr("gpux_uploaded_bytes 1\n"));
}

TEST_F(ServeOllama, RefusesChangesByStrangers) {
  const std::string body = R"({"model": "hf.co/org/name", "stream": false})";
  const auto ask_with = [&](const Serving& server, const std::string& fields) {
    return server.ask(with_body("POST", "/api/pull", body, fields));
  };
  const auto expect_refused = [](const Answered& answer, const char* reason) {
    EXPECT_EQ(answer.status, 403) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(reason));
    EXPECT_TRUE(Json::parse(answer.body).at("error").is_string());
  };
  // GPUX_OFFLINE: a client that may pull gets the answer that nothing is downloaded.
  const std::vector<std::pair<std::string, std::string>> offline{{"GPUX_OFFLINE", "1"}, {"HF_HUB_CACHE", "/nowhere"}};
  {
    const Serving server(*gpux_, {"--no-grpc"}, offline);
    EXPECT_EQ(ask_with(server, "").status, 404);
    EXPECT_EQ(ask_with(server, "Origin: http://localhost:3000\r\n").status, 404);
    expect_refused(ask_with(server, "X-Forwarded-For: 1.2.3.4\r\n"), "from this machine alone");
    expect_refused(ask_with(server, "Origin: https://evil.example\r\n"), "pages from 'https://evil.example'");
    const Json here{{"model", gpux_->home().string()}};
    EXPECT_EQ(server.ask(post("/api/pull", here.dump())).status, 400);
    EXPECT_THAT(server.json(post("/api/chat", R"({"model": "hf.co/org/name", "messages": []})"), 404).dump(),
                HasSubstr("'gpux pull hf.co/org/name' stores it"));
  }
  {
    const Serving server(*gpux_, {"chatty", "--no-grpc"}, offline);
    expect_refused(ask_with(server, ""), "gpux serve without a MODEL");
  }
  {
    const Serving server(*gpux_, {"--no-grpc", "--host", "0.0.0.0"}, offline);
    expect_refused(ask_with(server, ""), "reached by other machines");
  }
  const std::string keys = gpux_->folder().write("keys", "a-long-key\n");
  const Serving server(*gpux_, {"--no-grpc", "--host", "0.0.0.0", "--api-key-file", keys}, offline);
  EXPECT_EQ(ask_with(server, "").status, 401);
  EXPECT_EQ(ask_with(server, "Authorization: Bearer a-long-key\r\n").status, 404);
  expect_refused(ask_with(server, "Authorization: Bearer a-long-key\r\nOrigin: https://evil.example\r\n"),
                 "pages of other origins");
}

TEST_F(ServeOllama, RefusesFlagsOfTheStoreElsewhere) {
  EXPECT_THAT(gpux_->run({"serve", "chatty", "--allow-pull"}).err, HasSubstr("--allow-pull is for gpux serve without"));
  EXPECT_THAT(gpux_->run({"serve", "chatty", "--private-registry", "a:1"}).err,
              HasSubstr("--private-registry is for gpux serve without"));
  EXPECT_THAT(gpux_->run({"serve", "--private-registry", "http://a"}).err, HasSubstr("is no host"));
  EXPECT_THAT(gpux_->run({"serve", "--no-grpc", "--port", "0", "--host", "0.0.0.0", "--allow-pull"}).err,
              HasSubstr("--api-key-file sets keys"));
}

}  // namespace
}  // namespace gpux::test
