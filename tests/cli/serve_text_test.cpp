// gpux serve with a model that makes vectors of texts, as clients of other servers meet it.
#include <cmath>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "cli/serving.h"
#include "cli/text_figures.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::string mean_pooling = R"({"pooling_mode_mean_tokens": true})";

class ServeText : public testing::Test {
 protected:
  void SetUp() override { (void)write_encoder_folder(gpux_.folder(), mean_pooling, false); }

  [[nodiscard]] std::string folder() const { return (gpux_.folder().path() / "encoder").string(); }

  /// What `gpux embed` makes of the texts.
  [[nodiscard]] std::vector<Json> embedded(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"embed", "--model", folder()});
    const Outcome outcome = gpux_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<Json> vectors;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) vectors.push_back(Json::parse(line)["vector"]);
    return vectors;
  }

  Program gpux_;
};

std::string body_of(const std::vector<std::string>& texts) {
  return Json{{"inputs", texts}}.dump();
}

TEST_F(ServeText, GivesEachTextTheSameBitsWhateverItComesWith) {
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) {
    std::string text = "text number " + std::to_string(i);
    for (int more = 0; more < i % 7; ++more) text += " and a bit more of it";
    texts.push_back(text);
  }
  std::vector<std::string> arguments{"--normalize"};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  const std::vector<Json> expected = embedded(arguments);
  ASSERT_EQ(expected.size(), texts.size());

  // A queue that holds fewer than a request has texts: they come bit by bit.
  const Serving server(gpux_, {"texts=" + folder(), "--max-queue", "24"});
  const Json all = server.json(post("/embed", body_of(texts)));
  ASSERT_EQ(all.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(all.at(i), expected[i]) << texts[i];

  std::vector<std::jthread> clients;
  for (std::size_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (std::size_t i = client; i < texts.size(); i += 5) {
        EXPECT_EQ(server.json(post("/embed", Json{{"inputs", texts[i]}}.dump())).at(0), expected[i]);
        const Json pair = server.json(post("/models/texts/embed", body_of({texts[(i + 1) % texts.size()], texts[i]})));
        EXPECT_EQ(pair.at(1), expected[i]);
      }
    });
  }
}

TEST_F(ServeText, RefusesATokenThatTheModelHasNoEmbeddingFor) {
  gpux_.folder().write("encoder/config.json", R"({"vocab_size": 1500})");
  gpux_.folder().write("encoder/tokenizer_config.json",
                       R"({"added_tokens_decoder": {"1500": {"content": "[QUERY]", "special": true}}})");
  const Outcome outcome = gpux_.run({"embed", "--model", folder(), "a", "b [QUERY]"});
  EXPECT_EQ(outcome.code, 6);
  EXPECT_THAT(outcome.err, HasSubstr("text 2: the text has the token 1500 '[QUERY]'; accepted: 0 to 1499"));
  const Serving server(gpux_, {"texts=" + folder()});
  const std::string refusal = "the text has the token 1500 '[QUERY]'; accepted: 0 to 1499";
  EXPECT_THAT(server.json(post("/embed", body_of({"b [QUERY]"})), 422).at("error"), HasSubstr(refusal));
  EXPECT_THAT(server.json(post("/embed", body_of({"a", "b [QUERY]"})), 422).at("error"),
              HasSubstr("text 1: " + refusal));
  const Json refused = server.json(post("/v1/embeddings", R"({"input": ["a", "b [QUERY]"]})"), 400).at("error");
  EXPECT_EQ(refused.at("type"), "invalid_request_error");
  EXPECT_THAT(refused.at("message"), HasSubstr("text 1: " + refusal));
  EXPECT_EQ(server.json(post("/embed", body_of({"a", "b"}))).size(), 2U) << "other texts are answered";
}

TEST_F(ServeText, BatchesTextsAsTheFlagsAllow) {
  const std::vector<std::string> texts{"one line", "the model runs", "a longer text, of more words than the others",
                                       "b"};
  std::vector<std::string> arguments{"--normalize"};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  const std::vector<Json> expected = embedded(arguments);

  struct {
    std::vector<std::string> flags;
    int rows;
    double near;
  } const cases[]{{{}, 16, 0},
                  {{"--max-batch-size", "64"}, 16, 0},
                  {{"--max-batch-size", "4", "--max-batch-cost", "100"}, 4, 0},
                  {{"--max-batch-size", "1"}, 1, 0},
                  {{"--batching", "exact"}, 16, 0},
                  {{"--batching", "throughput"}, 16, 1e-5},
                  {{"--batching", "throughput", "--max-batch-size", "64"}, 64, 1e-5}};

  for (const auto& [flags, rows, near] : cases) {
    SCOPED_TRACE(testing::PrintToString(flags));
    std::vector<std::string> words{"texts=" + folder()};
    words.insert(words.end(), flags.begin(), flags.end());
    const Serving server(gpux_, words);
    EXPECT_EQ(server.json(get("/info"))["max_batch_size"], rows);
    const Json vectors = server.json(post("/embed", body_of(texts)));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (near == 0) {
        EXPECT_EQ(vectors[i], expected[i]);
      }
      for (std::size_t k = 0; k < expected[i].size(); ++k) {
        EXPECT_NEAR(vectors[i][k].get<double>(), expected[i][k].get<double>(), near);
      }
    }
  }
  const Outcome refused = gpux_.run({"serve", model("add.onnx"), "--batching", "throughput"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--batching is about vectors of texts, and 'add' makes none"));
}

// A provider that computes no padding: texts of all lengths share runs, whatever the precision.
TEST_F(ServeText, SharesRunsOfAllLengthsOnTheEncoderProvider) {
  const std::string made = (gpux_.folder().path() / "made").string();
  const Outcome imported = gpux_.run({"import", GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls", "-o", made});
  ASSERT_EQ(imported.code, 0) << imported.err;
  std::vector<std::string> texts;
  for (int i = 0; i < 60; ++i) {
    std::string text = "text number " + std::to_string(i);
    for (int more = 0; more < i % 9; ++more) text += " and a bit more of it";
    texts.push_back(text);
  }
  for (const char* precision : {"fp32", "int8"}) {
    SCOPED_TRACE(precision);
    const std::vector<std::string> provider{"--provider", "encoder", "--precision", precision};
    std::vector<Json> expected;
    for (const std::string& text : {texts[7], texts[8], texts[59]}) {
      std::vector<std::string> arguments{"embed", "--model", made, "--normalize", text};
      arguments.insert(arguments.end(), provider.begin(), provider.end());
      const Outcome outcome = gpux_.run(arguments);
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      expected.push_back(Json::parse(outcome.out)["vector"]);
    }
    std::vector<std::string> words{"texts=" + made};
    words.insert(words.end(), provider.begin(), provider.end());
    words.insert(words.end(), {"--workers", "auto"});
    const Serving server(gpux_, words);
    // Replicas bound to processors or not, by what was measured; more than one processor is needed for that.
    if (usable_processors(Machine::this_one()) > 1) {
      EXPECT_THAT(server.log(), ContainsRegex("worker.* of .*runs/s"));
    }
    const Json info = server.json(get("/info"));
    EXPECT_EQ(info["provider"], "encoder") << info.dump();
    EXPECT_NE(info["padding"], Json::array()) << info.dump();
    std::vector<std::jthread> clients;
    for (int client = 0; client < 3; ++client) {
      clients.emplace_back([&] {
        const Json all = server.json(post("/embed", body_of(texts)));
        ASSERT_EQ(all.size(), texts.size());
        EXPECT_EQ(all[7], expected[0]);
        EXPECT_EQ(all[8], expected[1]);
        EXPECT_EQ(all[59], expected[2]);
      });
    }
  }
}

TEST_F(ServeText, SpeaksToClientsOfOpenAi) {
  const std::vector<Json> expected = embedded({"--normalize", "hello world", "a"});
  const Serving server(gpux_, {"texts=" + folder()});
  const Json answer =
      server.json(post("/v1/embeddings", R"({"model": "texts", "input": ["hello world", "a"], "user": "somebody"})"));
  EXPECT_EQ(answer.at("object"), "list");
  EXPECT_EQ(answer.at("model"), "texts");
  ASSERT_EQ(answer.at("data").size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer.at("data").at(i).at("object"), "embedding");
    EXPECT_EQ(answer.at("data").at(i).at("index"), i);
    EXPECT_EQ(answer.at("data").at(i).at("embedding"), expected[i]);
  }
  const Json tokens = server.json(post("/tokenize", body_of({"hello world", "a"})));
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), tokens.at(0).size() + tokens.at(1).size());
  EXPECT_EQ(answer.at("usage").at("total_tokens"), answer.at("usage").at("prompt_tokens"));

  const Json packed = server.json(
      post("/v1/embeddings", R"({"model": "texts", "input": "a", "encoding_format": "base64", "dimensions": 3})"));
  EXPECT_EQ(packed.at("data").at(0).at("embedding").get<std::string>().size(), 16U);

  EXPECT_EQ(server.json(get("/v1/models")).at("data").at(0).at("id"), "texts");
  EXPECT_EQ(server.json(get("/v1/models/texts")).at("object"), "model");
  const Json unknown = server.json(get("/v1/models/others"), 404).at("error");
  EXPECT_EQ(unknown.at("code"), "model_not_found");
  EXPECT_EQ(server.json(post("/v1/embeddings", R"({"model": "others", "input": "a"})"), 404).at("error").at("type"),
            "invalid_request_error");
  EXPECT_THAT(server.json(post("/v1/embeddings", R"({"input": "a", "dimensions": 17})"), 400).at("error").at("message"),
              HasSubstr("17 dimensions requested; accepted: 1 to the model's 16"));
}

TEST_F(ServeText, SpeaksToClientsOfTextEmbeddingsInference) {
  const Serving server(gpux_, {"texts=" + folder(), "--strict-requests"});
  const Json plain = server.json(post("/", R"({"inputs": "hello world", "normalize": false})"));
  EXPECT_EQ(plain.at(0), embedded({"--no-normalize", "hello world"}).at(0));
  const Json prompted = server.json(post("/embed", R"({"inputs": "hello", "prompt_name": "query"})"));
  EXPECT_EQ(prompted.at(0), embedded({"--normalize", "--prompt", "query", "hello"}).at(0));

  const Json scores = server.json(
      post("/similarity", R"({"inputs": {"source_sentence": "hello world", "sentences": ["hello world", "a"]}})"));
  EXPECT_NEAR(scores.at(0).get<double>(), 1, 1e-6);
  EXPECT_LT(scores.at(1).get<double>(), 0.9999);
  // As huggingface_hub's InferenceClient.sentence_similarity() sends it.
  EXPECT_EQ(
      server.json(post("/", R"({"inputs": {"source_sentence": "hello world", "sentences": ["hello world", "a"]}, )"
                            R"("parameters": {}})")),
      scores);
  EXPECT_THAT(server.json(post("/", R"({"inputs": {"source_sentence": "a"}})"), 422).at("error").dump(),
              HasSubstr("inputs.sentences is missing"));
  EXPECT_THAT(server.json(post("/embed", R"({"inputs": {"source_sentence": "a"}})"), 422).at("error").dump(),
              HasSubstr("inputs is neither a text nor a list"));

  const std::string text = "h\u00e9llo";
  const Json tokens = server.json(post("/tokenize", Json{{"inputs", text}}.dump())).at(0);
  EXPECT_EQ(tokens.front().at("special"), true);
  EXPECT_TRUE(tokens.front().at("start").is_null());
  std::string pieces;
  Json ids = Json::array();
  for (const Json& token : tokens) {
    ids.push_back(token.at("id"));
    if (token.at("special") == false) pieces += token.at("text").get<std::string>();
  }
  EXPECT_EQ(pieces, text);
  EXPECT_EQ(server.json(post("/decode", Json{{"ids", ids}}.dump())).size(), 1U);
  // Tokens stand for the text that they spell.
  const Json decoded = server.json(post("/decode", Json{{"ids", ids}}.dump())).at(0);
  EXPECT_EQ(server.json(post("/embed", Json{{"inputs", ids}}.dump())),
            server.json(post("/embed", Json{{"inputs", decoded}}.dump())));

  // A token that the vocabulary does not have is no token, and the rest not its text.
  const std::string unknown = "token id 99999 at index 1 is not in the vocabulary; accepted: ids of its 1500 tokens";
  for (const auto& [path, body, status] : std::initializer_list<std::tuple<const char*, const char*, int>>{
           {"/decode", R"({"ids": [2, 99999]})", 422},
           {"/embed", R"({"inputs": [2, 99999]})", 422},
           {"/embed_all", R"({"inputs": [2, 99999]})", 422},
           {"/v1/embeddings", R"({"input": [2, 99999]})", 400}}) {
    EXPECT_THAT(server.json(post(path, body), status).dump(), HasSubstr(unknown)) << path;
  }
  EXPECT_THAT(server.json(post("/v1/embeddings", R"({"input": [[2], [2, 99999]]})"), 400).dump(),
              HasSubstr("text 1: " + unknown));
  for (const char* path : {"/embed", "/tokenize"}) {
    EXPECT_THAT(server.json(post(path, "{\"inputs\": \"caf\xe9\"}"), 422).dump(),
                HasSubstr("the body is not UTF-8 at byte offset 15 (0xe9)"));
  }

  const Json info = server.json(get("/info"));
  EXPECT_EQ(info.at("model_id"), "texts");
  EXPECT_EQ(info.at("model_type").at("embedding").at("pooling"), "mean");
  EXPECT_EQ(info.at("max_input_length"), 32);
  EXPECT_EQ(info.at("dimension"), 16);
  EXPECT_EQ(info.at("prompts"), Json::parse(R"(["document", "query"])"));

  std::string longer = "hello";
  for (int i = 0; i < 40; ++i) longer += " hello";
  EXPECT_EQ(server.json(post("/embed", Json{{"inputs", longer}}.dump())).size(), 1U);
  EXPECT_THAT(server.json(post("/embed", Json{{"inputs", longer}, {"truncate", false}}.dump()), 422).at("error"),
              HasSubstr("accepted: at most 32"));
  const Json second =
      server.json(post("/embed", Json{{"inputs", {"a", longer}}, {"truncate", false}}.dump()), 422).at("error");
  EXPECT_THAT(second, HasSubstr("text 1: "));
  for (const auto& [body, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{", "no JSON"},
           {R"({"inputs": "a", "prompt_name": "other"})", "prompt_name is 'other'; accepted: document, query"},
           {R"({"inputs": "a", "foo": 1})", "foo is not known"}}) {
    const Json refused = server.json(post("/embed", body), 422);
    EXPECT_THAT(refused.at("error"), HasSubstr(message));
    EXPECT_EQ(refused.at("error_type"), "Validation");
  }
  EXPECT_EQ(server.ask(get("/embed")).status, 405);
}

TEST_F(ServeText, ReportsWhatAnAnswerTook) {
  const Serving server(gpux_, {"texts=" + folder()});
  const std::vector<std::string> texts{"h\u00e9llo world", "a", "\u4e16\u754c and a bit more"};
  const std::size_t characters = 11 + 1 + 17;
  std::size_t tokens = 0;
  Json ids;
  for (const Json& text : server.json(post("/tokenize", body_of(texts)))) {
    tokens += text.size();
    if (ids.is_null()) {
      for (const Json& token : text) ids.push_back(token.at("id"));
    }
  }
  for (const char* path : {"/embed", "/models/texts/embed", "/embed_all", "/"}) {
    SCOPED_TRACE(path);
    expect_figures(server.ask(post(path, body_of(texts))), characters, tokens);
  }
  expect_figures(server.ask(post("/v1/embeddings", Json{{"input", texts}}.dump())), characters, tokens);
  const Json similarity{{"inputs", {{"source_sentence", texts[0]}, {"sentences", {texts[1], texts[2]}}}}};
  expect_figures(server.ask(post("/similarity", similarity.dump())), characters, tokens);
  // The characters that tokens spell; and of a long text all characters, but the tokens that count.
  const std::string spelt = server.json(post("/decode", Json{{"ids", ids}}.dump())).at(0);
  const auto size = static_cast<std::size_t>(std::count_if(
      spelt.begin(), spelt.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
  expect_figures(server.ask(post("/embed", Json{{"inputs", ids}}.dump())), size, ids.size());
  std::string longer;
  for (int i = 0; i < 100; ++i) longer += "hello ";
  expect_figures(server.ask(post("/embed", Json{{"inputs", longer}}.dump())), 600, 32);
  EXPECT_EQ(server.ask(post("/tokenize", body_of(texts))).header("x-compute-type"), "");
}

TEST_F(ServeText, TakesAPlainTextWhereOneTextWillDo) {
  const Serving server(gpux_, {"texts=" + folder()});
  const std::string text = R"({"inputs": "caf\u00e9"} = a text)"
                           "\n";
  for (const char* path : {"/embed", "/models/texts/embed", "/embed_all", "/tokenize", "/"}) {
    SCOPED_TRACE(path);
    const auto plain = [&](const std::string& content, const std::string& type) {
      return post(path, content, "Content-Type: " + type + "\r\n");
    };
    const Json expected = server.json(post(path, Json{{"inputs", text}}.dump()));
    for (const char* type :
         {"text/plain", "text/plain; charset=utf-8", "TEXT/PLAIN;format=flowed; Charset=\"UTF-8\""}) {
      EXPECT_EQ(server.json(plain(text, type)), expected) << type;
    }
    EXPECT_THAT(server.json(plain("a", "text/plain; charset=iso-8859-1; x=utf-8"), 422).at("error"),
                HasSubstr("the charset of Content-Type is 'iso-8859-1'; accepted: utf-8"));
    EXPECT_THAT(server.json(plain("caf\xe9", "text/plain"), 422).at("error"), HasSubstr("not UTF-8 at byte offset 3"));
    EXPECT_EQ(server.json(plain(Json{{"inputs", text}}.dump(), "application/x-www-form-urlencoded")), expected);
    EXPECT_THAT(server.json(plain(Json{{"inputs", text}}.dump(), "text/plainest"), 415).at("error"),
                HasSubstr("'text/plainest'; accepted: application/json, text/plain"));
  }
  EXPECT_THAT(server.json(post("/similarity", "a", "Content-Type: text/plain\r\n"), 415).at("error"),
              HasSubstr("accepted: application/json"));
  EXPECT_TRUE(
      server.json(get("/openapi.json"))["paths"]["/embed"]["post"]["requestBody"]["content"].contains("text/plain"));
}

// The model pools by the mean, so the vectors of the tokens make the text's.
TEST_F(ServeText, GivesTheVectorsOfAllTokens) {
  const Serving server(gpux_, {"texts=" + folder(), "--strict-requests"});
  const std::vector<std::string> texts{"hello world", "a longer text of more words", "b"};
  for (const char* prefix : {"", "/models/texts"}) {
    SCOPED_TRACE(prefix);
    const auto path = [&](const char* route) { return std::string(prefix) + route; };
    const Json all = server.json(post(path("/embed_all"), body_of(texts)));
    const Json tokens = server.json(post(path("/tokenize"), body_of(texts)));
    const Json pooled = server.json(post(path("/embed"), Json{{"inputs", texts}, {"normalize", false}}.dump()));
    ASSERT_EQ(all.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(all[i].size(), tokens[i].size());
      for (std::size_t k = 0; k < 16; ++k) {
        double sum = 0;
        for (const Json& vector : all[i]) {
          ASSERT_EQ(vector.size(), 16U);
          sum += vector[k].get<double>();
        }
        EXPECT_NEAR(sum / static_cast<double>(all[i].size()), pooled[i][k].get<double>(), 1e-5);
      }
    }
    // Settings of pooled vectors mean nothing for those of tokens.
    EXPECT_THAT(server.json(post(path("/embed_all"), R"({"inputs": "a", "normalize": true})"), 422).at("error"),
                HasSubstr("normalize is not known"));
  }
}

TEST_F(ServeText, NamesTheModelsThatReadTexts) {
  const Serving server(gpux_, {"texts=" + folder(), "adder=" + model("add.onnx")});
  // Without a name it goes to the only one that can.
  EXPECT_EQ(server.json(post("/embed", R"({"inputs": "a"})")).size(), 1U);
  EXPECT_THAT(server.json(post("/models/adder/embed", R"({"inputs": "a"})"), 422).at("error"),
              HasSubstr("'adder' makes no dense vectors of texts; texts does"));
  EXPECT_THAT(server.json(post("/v1/embeddings", R"({"model": "adder", "input": "a"})"), 400).at("error").at("message"),
              HasSubstr("texts does"));
  // It still takes tensors.
  const Json infer = server.json(post("/v2/models/texts/infer", R"({"inputs": [
      {"name": "input_ids", "shape": [1, 3], "datatype": "INT64", "data": [1, 2, 3]},
      {"name": "token_type_ids", "shape": [1, 3], "datatype": "INT64", "data": [0, 0, 0]},
      {"name": "attention_mask", "shape": [1, 3], "datatype": "INT64", "data": [1, 1, 1]}]})"));
  EXPECT_EQ(infer.at("model_name"), "texts");
}

TEST_F(ServeText, NeedsKeysWhereTheyAreSet) {
  const Serving server(gpux_, {"texts=" + folder()}, {{"GPUX_API_KEY", "a long secret"}});
  const Json refused = server.json(post("/v1/embeddings", R"({"input": "a"})"), 401).at("error");
  EXPECT_EQ(refused.at("type"), "authentication_error");
  EXPECT_EQ(server.ask(post("/embed", R"({"inputs": "a"})")).status, 401);
}

}  // namespace
}  // namespace gpux::test
