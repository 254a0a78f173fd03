// Models that judge texts, by `gpux run` and behind a port.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/serving.h"
#include "cli/text_figures.h"
#include "pipeline/task_folder.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::HasSubstr;

constexpr double near = 2e-4;

class Texts : public testing::Test {
 protected:
  [[nodiscard]] std::string folder(const std::string& name) const {
    return import_task_folder(gpux_.folder(), name).string();
  }

  [[nodiscard]] static Json answers(const std::string& name) {
    return Json::parse(read_file(task_data(name) / "answers.json"));
  }

  [[nodiscard]] Json run(const std::string& model, const Json& input) const {
    const Outcome outcome = gpux_.run({"run", model, "--input", input.dump()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }

  Program gpux_;
};

TEST_F(Texts, AreClassifiedByRun) {
  const std::string model = folder("classify-bert");
  const Json one = answers("classify-bert").at("cases").at(0);
  const std::string text = one.at("texts").at(0);
  for (const Json& input : {Json(text), Json{{"text", text}}, Json{{"text", Json::array({text})}}}) {
    const Json told = run(model, input);
    EXPECT_EQ(told.at("labels").at("logits").at(0).at(0).at("label"), one.at("scores").at(0).at("label"));
    EXPECT_NEAR(told.at("logits").at(0).at(1).get<double>(), one.at("logits").at(1).get<double>(), near);
  }
  const Json list = run(model, Json::array({Json{{"text", text}}, Json{{"text", "b"}, {"text_pair", "c d"}}}));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list.at(0), run(model, Json{{"text", text}}));
  EXPECT_EQ(list.at(1), run(model, Json{{"text", "b"}, {"text_pair", "c d"}}));
  // Tokens are what they always were.
  const Json raw =
      run(model, Json{{"input_ids", {{2, 3}}}, {"attention_mask", {{1, 1}}}, {"token_type_ids", {{0, 0}}}});
  EXPECT_EQ(raw.at("logits").at(0).size(), 3U);
}

TEST_F(Texts, ArePlainForRun) {
  const std::string model = folder("classify-bert");
  const auto told = [&](const std::vector<std::string>& words, const Surroundings& where = {}) {
    std::vector<std::string> arguments{"run"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Outcome outcome = gpux_.run(arguments, where);
    EXPECT_EQ(outcome.code, 0) << testing::PrintToString(words) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  };
  const auto piped = [](const std::string& content) { return Surroundings{.standard_input = content}; };
  const Json fox = run(model, Json{{"text", "a fox"}}), dog = run(model, Json{{"text", "the dog = [b]"}});
  const std::string file = gpux_.folder().write("fox.txt", "a fox\n");

  EXPECT_EQ(told({model, "a fox"}), fox);
  EXPECT_EQ(told({"-m", model, "a fox"}), fox);
  EXPECT_EQ(told({"a fox", "-m", model}), fox);
  EXPECT_EQ(told({model, "-i", "a fox"}), fox);
  EXPECT_EQ(told({model, "-i", "text=a fox"}), fox);
  EXPECT_EQ(told({model, "-i", "text=\"a fox\""}), fox);
  EXPECT_EQ(told({model, "-i", "text=[\"a fox\"]"}), fox);
  EXPECT_EQ(told({model, "-i", "text=@" + file}), fox);
  EXPECT_EQ(told({model, "@" + file}), fox);
  EXPECT_EQ(told({model, R"({"text": "a fox"})"}), fox);
  EXPECT_EQ(told({model}, piped("a fox\n")), fox);
  EXPECT_EQ(told({model, "-"}, piped("\xef\xbb\xbf"
                                     "a fox")),
            fox);
  EXPECT_EQ(told({model}, piped(R"({"text": "a fox"})")), fox);
  // Neither an equals sign nor a bracket makes JSON or a name of a sentence.
  EXPECT_EQ(told({model, "the dog = [b]"}), dog);
  EXPECT_EQ(told({model, "-i", "the dog = [b]"}), dog);
  EXPECT_EQ(told({model, "[b] the dog"}), run(model, Json{{"text", "[b] the dog"}}));
  EXPECT_EQ(told({model, "[a, b]"}), run(model, Json{{"text", "[a, b]"}}));
  EXPECT_EQ(told({model, R"([{"text": "a fox"}, {"text": "the dog = [b]"}])"}), Json::array({fox, dog}));
  EXPECT_EQ(told({model, "a=b"}), run(model, Json{{"text", "a=b"}}));
  // Several words are a list, and a word joins the inputs that are named.
  EXPECT_EQ(told({model, "a fox", "the dog = [b]"}), Json::array({fox, dog}));
  EXPECT_EQ(told({model, "a fox", "-i", "text_pair=a dog"}),
            run(model, Json{{"text", "a fox"}, {"text_pair", "a dog"}}));
  const std::string questions = folder("answers-distilbert");
  EXPECT_EQ(told({questions, "who?", "-i", "context=the fox"}),
            run(questions, Json{{"question", "who?"}, {"context", "the fox"}}));

  const std::string unmarked = gpux_.folder().write("unmarked.txt", std::string("h\0i\0\n\0", 6));

  struct {
    std::vector<std::string> words;
    int code;
    const char* says;
    std::optional<std::string> standard_input = {};
  } const refused[]{
      {{model, file}, 2, "is a file: write '@"},
      {{model, "-i", "text=" + file}, 2, "is a file: write '@"},
      {{model, "-i", "txt=hello"}, 6, "did you mean 'text'?"},
      {{model, "caf\xe9"}, 6, "not UTF-8 at byte offset 3 (0xe9)"},
      {{model}, 6, "standard input: not UTF-8 at byte offset 3 (0xe9)", "caf\xe9\n"},
      {{model},
       6,
       "standard input: UTF-16 (little-endian) by its byte order mark",
       "\xff\xfe"
       "a"},
      {{model},
       6,
       "standard input: a NUL character at byte offset 1, as in UTF-16 (little-endian) without a byte order mark",
       std::string("h\0i\0\n\0", 6)},
      {{model, "-i", "text=@" + unmarked}, 6, "a NUL character at byte offset 1, as in UTF-16 (little-endian)"},
      {{model}, 6, "'text' is missing", ""},
      {{model}, 6, "standard input: it is a PNG image, and the model is given none", "\x89PNG\r\n\x1a\n"},
      {{model, "a", "b", "-i", "text_pair=c"}, 2, "several texts are a list"},
      {{questions, "who?"}, 6, "'context' is missing"},
      {{}, 2, "run: give the model, as the first word or with -m"},
  };

  for (const auto& each : refused) {
    std::vector<std::string> arguments{"run"};
    arguments.insert(arguments.end(), each.words.begin(), each.words.end());
    Surroundings where;
    where.standard_input = each.standard_input;
    const Outcome outcome = gpux_.run(arguments, where);
    EXPECT_EQ(outcome.code, each.code) << testing::PrintToString(each.words) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(each.says));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(Texts, AreMeasuredAndVerified) {
  const std::string model = folder("classify-bert");
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"bench", model, "--runs", "3"}, {"run", model, "--benchmark", "--runs", "3"}, {"verify", model}}) {
    std::vector<std::string> arguments = verb;
    arguments.insert(arguments.end(), {"--input", R"({"text": "a fox"})", "--json"});
    EXPECT_EQ(gpux_.run(arguments).code, 0) << verb.front();
    arguments[arguments.size() - 2] = R"({"text": ["a fox", "a dog"]})";
    const Outcome several = gpux_.run(arguments);
    EXPECT_EQ(several.code, 2) << verb.front();
    EXPECT_THAT(several.err, HasSubstr("these texts take 2: give one text"));
  }
}

TEST_F(Texts, ThatAreNoneAreRefusedInOneLine) {
  const std::string model = folder("classify-bert");
  for (const auto& [input, said] : std::vector<std::pair<std::string, std::string>>{
           {R"({"text": 3})", "text"},
           {R"({"text": "a", "text_pair": ["b", "c"]})", "'text' has 1 text, and 'text_pair' 2"},
           {R"({"text": "a", "input_ids": [[1]]})", "both 'text' and 'input_ids' are given"},
           {R"({"txt": "a"})", "did you mean 'text'?"},
           {R"([{"text": "a"}, {"text": []}])", "item 1"},
       }) {
    const Outcome outcome = gpux_.run({"run", model, "--input", input});
    EXPECT_EQ(outcome.code, 6) << input;
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(Texts, AreNamedAndAnsweredByRun) {
  const Json names = answers("entities-bert").at("cases");
  for (const Json& one : names) {
    if (one.at("strategy") != "simple") continue;
    const Json told = run(folder("entities-bert"), Json{{"text", one.at("text")}});
    EXPECT_EQ(told.size(), 1U) << told;
    ASSERT_EQ(told.at("entities").at(0).size(), one.at("entities").size());
    EXPECT_EQ(told.at("entities").at(0).at(0).at("start"), one.at("entities").at(0).at("start"));
    break;
  }
  const Json one = answers("answers-distilbert").at("cases").at(1);
  const std::string model = folder("answers-distilbert");
  const Json told = run(model, Json{{"question", one.at("question")}, {"context", one.at("context")}});
  EXPECT_EQ(told.at("answers").at(0).at("answer"), one.at("answer"));
  const Outcome raw = gpux_.run(
      {"run", model, "--output-name", "start_logits", "-i", Json{{"question", "who"}, {"context", "the fox"}}.dump()});
  EXPECT_EQ(raw.code, 0) << raw.err;
  EXPECT_TRUE(Json::parse(raw.out).contains("start_logits"));
}

TEST_F(Texts, GoIntoPackagesWithTheirTokenizer) {
  const std::filesystem::path model = import_task_folder(gpux_.folder(), "entities-bert");
  std::string yaml = content_of(GPUX_SOURCE_DIR "/docs/texts.md");
  const std::size_t begin = yaml.find("```yml\n") + 7;
  yaml = yaml.substr(begin, yaml.find("```\n", begin) - begin);
  gpux_.folder().write("entities-bert-onnx/gpux.yml", yaml);
  const Outcome built = gpux_.run({"build", model.string(), "-t", "names"});
  ASSERT_EQ(built.code, 0) << built.err;
  std::filesystem::remove_all(model);
  EXPECT_TRUE(run("names", "Zürich and 1234 numbers").contains("entities"));

  const std::filesystem::path plain = write_task_folder(gpux_.folder(), "rank-mpnet");
  const Outcome imported = gpux_.run({"import", plain.string(), "-t", "ranker", "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(Json::parse(imported.out).at("task"), "text-ranking");
  EXPECT_EQ(run("ranker", Json{{"query", "a"}, {"text", {"b", "c d"}}}).at("scores").size(), 2U);
}

TEST_F(Texts, AreServedInEveryProtocol) {
  const Serving server(
      gpux_, {"mood=" + folder("classify-bert"), "ranker=" + folder("rank-mpnet"), "names=" + folder("entities-bert")});
  const Json one = answers("classify-bert").at("cases").at(0);
  const std::string text = one.at("texts").at(0);

  const Json own = server.json(post("/models/mood/predict", Json{{"text", {text, "b"}}}.dump()));
  EXPECT_EQ(own, run(folder("classify-bert"), Json{{"text", {text, "b"}}}));
  // As it is, by its Content-Type.
  const std::string raw_text = "{inputs} = " + text;
  const auto plain = [](const std::string& content, const std::string& type) {
    return post("/models/mood/predict", content, "Content-Type: " + type + "\r\n");
  };
  EXPECT_EQ(server.json(plain(raw_text, "text/plain")), run(folder("classify-bert"), Json{{"text", raw_text}}));
  EXPECT_EQ(server.json(plain(raw_text, "text/plain; charset=utf-8")), server.json(plain(raw_text, "text/plain")));
  EXPECT_THAT(server.json(plain("caf\xe9", "text/plain"), 400).dump(), HasSubstr("not UTF-8 at byte offset 3 (0xe9)"));
  EXPECT_THAT(server.json(plain(std::string("h\0i\0", 4), "text/plain"), 400).dump(),
              HasSubstr("the body: a NUL character at byte offset 1, as in UTF-16 (little-endian)"));
  EXPECT_EQ(server.json(post("/models/mood/predict", R"({"text": "a \u0000fox"})"), 200),
            server.json(post("/models/mood/predict", R"({"text": "a fox"})"), 200))
      << "in JSON a NUL is the tokenizer's, and this one drops it";
  EXPECT_THAT(server.json(plain("a", "text/plain; charset=latin1"), 400).dump(),
              HasSubstr("the charset of Content-Type is 'latin1'; accepted: utf-8"));
  EXPECT_THAT(server.json(post("/models/mood/predict", "{\"text\": \"caf\xe9\"}"), 400).dump(), HasSubstr("UTF-8"));
  EXPECT_EQ(server.json(plain(raw_text, "Text/Plain;Charset=\"UTF-8\"")), server.json(plain(raw_text, "text/plain")));
  // As text-embeddings-inference has it.
  const Json told = server.json(post("/models/mood/predict", Json{{"inputs", text}}.dump()));
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(told.at(0).at("label"), one.at("scores").at(0).at("label"));
  EXPECT_NEAR(told.at(0).at("score").get<double>(), one.at("scores").at(0).at("score").get<double>(), near);
  const Json raw =
      server.json(post("/models/mood/predict", Json{{"inputs", {{text}, {"b"}}}, {"raw_scores", true}}.dump()));
  ASSERT_EQ(raw.size(), 2U);
  EXPECT_GT(std::abs(raw.at(0).at(0).at("score").get<double>() - told.at(0).at("score").get<double>()), 1e-6);
  // Texts and pairs in one list, each as it is answered alone.
  const Json mixed = server.json(post("/models/mood/predict", Json{{"inputs", {{text}, {text, "b"}, {"b"}}}}.dump()));
  EXPECT_EQ(mixed, Json::array({told, server.json(post("/models/mood/predict", Json{{"inputs", {text, "b"}}}.dump())),
                                server.json(post("/models/mood/predict", Json{{"inputs", "b"}}.dump()))}));
  EXPECT_NE(mixed.at(0), mixed.at(1));
  // As huggingface_hub's clients ask.
  const Json best =
      server.json(post("/models/mood/predict", Json{{"inputs", text}, {"parameters", {{"top_k", 1}}}}.dump()));
  EXPECT_EQ(best, Json::array({told.at(0)}));
  const Json refused = server.json(post("/models/mood/predict", R"({"inputs": [1]})"), 422);
  EXPECT_EQ(refused.at("error_type"), "Validation");

  const Json v2 = server.json(post(
      "/v2/models/mood/infer",
      Json{{"inputs", {{{"name", "text"}, {"shape", {2}}, {"datatype", "BYTES"}, {"data", {text, "b"}}}}}}.dump()));
  EXPECT_EQ(v2.at("outputs").at(0).at("shape"), Json::array({2, 3}));
  EXPECT_NEAR(v2.at("outputs").at(0).at("data").at(0).get<double>(), one.at("logits").at(0).get<double>(), near);
  const Json named = server.json(
      post("/v2/models/names/infer",
           Json{{"inputs", {{{"name", "text"}, {"shape", {1}}, {"datatype", "BYTES"}, {"data", {text}}}}}}.dump()));
  EXPECT_EQ(named.at("outputs").at(0).at("name"), "entities");
  EXPECT_TRUE(Json::parse(named.at("outputs").at(0).at("data").at(0).get<std::string>()).is_array());
  const Json entities = Json::parse(named.at("outputs").at(0).at("data").at(0).get<std::string>());
  EXPECT_EQ(server.json(post("/models/names/predict", Json{{"inputs", text}}.dump())), entities);
  EXPECT_EQ(server.json(post("/models/names/predict", Json{{"inputs", {text, text}}}.dump())),
            Json::array({entities, entities}));
  EXPECT_THAT(
      server
          .json(post("/models/names/predict", R"({"inputs": "a", "parameters": {"aggregation_strategy": "max"}})"), 422)
          .at("error")
          .dump(),
      HasSubstr("postprocessing.aggregation"));
  const Json metadata = server.json(get("/v2/models/mood"));
  EXPECT_EQ(metadata.at("inputs").at(0).at("name"), "text");
  EXPECT_EQ(metadata.at("inputs").at(0).at("datatype"), "BYTES");

  const Json rank = answers("rank-mpnet").at("cases");
  std::vector<std::string> texts;
  for (const Json& pair : rank) texts.push_back(pair.at("text"));
  const Json ranked = server.json(
      post("/rerank", Json{{"query", rank.at(0).at("query")}, {"texts", texts}, {"return_text", true}}.dump()));
  ASSERT_EQ(ranked.size(), texts.size());
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const auto index = ranked.at(i).at("index").get<std::size_t>();
    EXPECT_EQ(ranked.at(i).at("text"), texts.at(index));
    const auto score = ranked.at(i).at("score").get<double>();
    EXPECT_NEAR(score, index == 0 ? rank.at(0).at("score").get<double>() : score, near);
    EXPECT_LE(score, i == 0 ? 1 : ranked.at(i - 1).at("score").get<double>());
  }
  EXPECT_THAT(server.json(post("/models/mood/rerank", R"({"query": "a", "texts": ["b"]})"), 422).at("error").dump(),
              HasSubstr("'mood' ranks no texts; ranker does"));
  EXPECT_THAT(server.json(post("/rerank", R"({"query": "a", "texts": []})"), 422).at("error").dump(),
              HasSubstr("texts is empty"));
  EXPECT_GT(server.json(post("/models/mood/tokenize", R"({"inputs": "a"})")).at(0).size(), 2U);
}

TEST_F(Texts, AreRankedForClientsOfCohereAndJina) {
  const Serving server(gpux_, {"ranker=" + folder("rank-mpnet")});
  const Json rank = answers("rank-mpnet").at("cases");
  std::vector<std::string> texts;
  for (const Json& pair : rank) texts.push_back(pair.at("text"));
  const Json ranked = server.json(
      post("/rerank", Json{{"query", rank.at(0).at("query")}, {"texts", texts}, {"return_text", true}}.dump()));
  const Json asked{{"model", "ranker"},
                   {"query", rank.at(0).at("query")},
                   {"documents", texts},
                   {"top_n", 2},
                   {"return_documents", true}};
  for (const char* path : {"/v1/rerank", "/v2/rerank"}) {
    const Json answer = server.json(post(path, asked.dump()));
    EXPECT_EQ(answer.at("model"), "ranker");
    const Json& results = answer.at("results");
    ASSERT_EQ(results.size(), 2U);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results.at(i).at("index"), ranked.at(i).at("index"));
      EXPECT_EQ(results.at(i).at("relevance_score"), ranked.at(i).at("score"));
      EXPECT_EQ(results.at(i).at("document").at("text"), ranked.at(i).at("text"));
    }
  }
  Json as_objects{{"query", rank.at(0).at("query")}, {"documents", Json::array()}};
  for (const std::string& one : texts) as_objects["documents"].push_back({{"text", one}});
  const Json all = server.json(post("/v1/rerank", as_objects.dump())).at("results");
  ASSERT_EQ(all.size(), texts.size());
  EXPECT_EQ(all.at(0), (Json{{"index", ranked.at(0).at("index")}, {"relevance_score", ranked.at(0).at("score")}}));
  const std::map<std::string, std::string> refused{
      {R"({"query": "a", "documents": []})", "documents is empty"},
      {R"({"query": "a", "documents": "b"})", "documents is no list"},
      {R"({"query": "a", "documents": ["b"], "top_n": 0})", "top_n"},
      {R"({"query": "a", "documents": [{"title": "b"}]})", "documents[0].text"},
      {R"({"query": "a", "documents": [7]})", "documents[0]"},
      {R"({"query": "a", "documents": ["b"], "max_tokens_per_doc": 8})", "max_tokens_per_doc"},
      {R"({"documents": ["b"]})", "query"},
  };
  for (const auto& [body, reason] : refused) {
    EXPECT_THAT(server.json(post("/v2/rerank", body), 422).at("error").dump(), HasSubstr(reason)) << body;
  }
}

// In one window, and in several.
TEST_F(Texts, AreSearchedForAnswersByServers) {
  const std::string questions = folder("answers-distilbert");
  const Serving server(gpux_, {"answers=" + questions});
  std::string many = "the fox";
  for (int i = 0; i < 60; ++i) many += " and the dog";
  const Json one{{"question", "who?"}, {"context", "the fox"}}, several{{"question", "who?"}, {"context", many}};
  const auto served = [&](const Json& body) { return server.json(post("/models/answers/predict", body.dump())); };
  EXPECT_EQ(served(one), run(questions, one));
  EXPECT_EQ(served(several), run(questions, several));
  // As huggingface_hub's clients ask.
  const Json answer = served(one).at("answers").at(0), longer = served(several).at("answers").at(0);
  for (const char* path : {"/", "/predict", "/models/answers/predict"}) {
    const auto ask_for = [&](const Json& inputs) { return server.json(post(path, Json{{"inputs", inputs}}.dump())); };
    EXPECT_EQ(ask_for(one), answer) << path;
    EXPECT_EQ(ask_for({one, several}), Json::array({answer, longer})) << path;
  }
  const std::map<std::string, std::string> refused{
      {R"({"inputs": "who?"})", "inputs"},
      {R"({"inputs": []})", "inputs is empty"},
      {R"({"inputs": {"question": "who?"}})", "inputs.context"},
      {R"({"inputs": [{"question": "who?", "context": 7}]})", "inputs[0].context is no text"},
      {R"({"inputs": {"question": "a", "context": "b"}, "parameters": {"max_answer_len": 3}})", "max_answer_len"},
  };
  for (const auto& [body, reason] : refused) {
    EXPECT_THAT(server.json(post("/predict", body), 422).at("error").dump(), HasSubstr(reason)) << body;
  }
  EXPECT_EQ(served(Json::array({several, one, one})), run(questions, Json::array({several, one, one})));
}

TEST_F(Texts, AreAnsweredWithWhatTheyTook) {
  const Serving server(gpux_, {"mood=" + folder("classify-bert"), "ranker=" + folder("rank-mpnet")});
  const auto tokens_of = [&](const std::string& name, const std::string& text) {
    return server.json(post("/models/" + name + "/tokenize", Json{{"inputs", text}}.dump())).at(0).size();
  };
  const std::string one = "the caf\u00e9", two = "a longer text";
  const auto predict = [&](const Json& inputs) {
    return server.ask(post("/models/mood/predict", Json{{"inputs", inputs}}.dump()));
  };
  const std::size_t first = tokens_of("mood", one), second = tokens_of("mood", two);
  expect_figures(predict(one), 8, first);
  // A pair shares its first mark.
  expect_figures(predict(Json::array({one, two})), 8 + 13, first + second - 1);
  expect_figures(predict({{one}, {two}, {one, two}}), std::size_t{2} * (8 + 13), 2 * (first + second) - 1);
  // The query counts for each text, and each of the three pairs shares its first mark.
  const Json rerank{{"query", one}, {"texts", {two, two, "b"}}};
  expect_figures(server.ask(post("/rerank", rerank.dump())), 3 * 8 + 2 * 13 + 1,
                 3 * tokens_of("ranker", one) + 2 * tokens_of("ranker", two) + tokens_of("ranker", "b") - 3);
  // gpux's own form has its own, finer figures.
  const Answered own = server.ask(post("/models/mood/predict", R"({"text": "a"})"));
  EXPECT_NE(own.header("x-total-time").find('.'), std::string::npos);
}

// Whatever descriptors the program opens for itself do not take its place.
TEST(StandardInput, ThatIsClosedCannotBeRead) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "with ThreadSanitizer gRPC is a shared library, whose constructors run before the program's";
#endif
#endif
  const Program gpux;
  const Outcome outcome = gpux.run({"run", model("identity_string.onnx"), "-"}, {.shell = "exec <&-"});
  EXPECT_EQ(outcome.code, 13) << outcome.out;
  EXPECT_THAT(outcome.err, testing::HasSubstr("cannot read 'standard input': Bad file descriptor"));
}

}  // namespace
}  // namespace gpux::test
