// Sparse vectors, late interaction and zero-shot classification, by the program and behind a port.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/serving.h"
#include "embedding/encoder_folder.h"
#include "embedding/representation_folder.h"
#include "pipeline/task_folder.h"

namespace gpux::test {
namespace {

using http::post;
using testing::HasSubstr;

constexpr double near = 2e-5;

class Heads : public testing::Test {
 protected:
  [[nodiscard]] static Json answers() { return Json::parse(read_file(representation_data("answers.json"))); }

  [[nodiscard]] Json run(std::vector<std::string> arguments) const {
    const Outcome outcome = gpux_.run(std::move(arguments));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }

  /// A classifier whose labels are those of natural language inference.
  [[nodiscard]] std::string inference_model() const {
    const std::filesystem::path made = import_task_folder(gpux_.folder(), "classify-bert");
    Json config = Json::parse(read_file(made / "config.json"));
    config["id2label"] = {{"0", "ENTAILMENT"}, {"1", "neutral"}, {"2", "contradiction"}};
    write_file_atomically(made / "config.json", config.dump());
    return made.string();
  }

  Program gpux_;
};

TEST_F(Heads, SparseVectorsArePrintedWithTheirTokens) {
  const std::string model = write_splade_folder(gpux_.folder(), "splade", "{}").string();
  const Json answer = answers().at(1);
  const auto text = answer.at("text").get<std::string>();
  const Json all = run({"embed", model, text});
  EXPECT_EQ(all.at("indices"), answer.at("max").at("indices"));
  const Json few = run({"embed", model, "--sparse", "--sparse-top-k", "3", "--token-names", text});
  EXPECT_EQ(few.at("values").size(), 3U);
  EXPECT_EQ(few.at("tokens").size(), 3U);
  const Outcome refused = gpux_.run({"embed", model, "--multi-vector", text});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("makes sparse embeddings"));
  const std::string dense = write_encoder_folder(gpux_.folder(), R"({"pooling_mode_mean_tokens": true})", false);
  const Outcome lacking = gpux_.run({"embed", dense, "--sparse", text});
  EXPECT_EQ(lacking.code, 2);
  EXPECT_THAT(lacking.err, HasSubstr("makes dense embeddings"));
  EXPECT_EQ(gpux_.run({"embed", dense, "--token-names", text}).code, 2);
  EXPECT_EQ(gpux_.run({"embed", model, "-o", (gpux_.folder().path() / "x.npy").string(), text}).code, 2);
}

TEST_F(Heads, AreSearchedInTheCallAndInFiles) {
  const Json all = answers();
  for (const std::string& model :
       {write_splade_folder(gpux_.folder(), "splade", "{}").string(), write_colbert_folder(gpux_.folder()).string()}) {
    std::vector<std::string> arguments{"search", model, all.at(1).at("text"), "--json"};
    std::vector<std::string> stored{"embed", model, "-o", (gpux_.folder().path() / "index.npz").string()};
    for (const Json& answer : all) {
      arguments.push_back(answer.at("text"));
      stored.push_back(answer.at("text"));
    }
    const Json found = run(arguments);
    ASSERT_EQ(found.at("results").size(), all.size());
    ASSERT_EQ(gpux_.run(stored).code, 0);
    Json again = run({"search", model, all.at(1).at("text"), "--json", "--index", stored[3]});
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(again.at("results").at(i).at("score"), found.at("results").at(i).at("score"));
      const std::size_t index = found.at("results").at(i).at("index");
      if (model.ends_with("hidden")) {
        EXPECT_NEAR(found.at("results").at(i).at("score").get<double>(), all.at(1).at("max_sim").at(index), 1e-4);
      }
    }
  }
}

TEST_F(Heads, SparseVectorsAreServedAsTextEmbeddingsInferenceServesThem) {
  const Serving server(gpux_,
                       {"splade=" + write_splade_folder(gpux_.folder(), "splade", "{}").string(),
                        "dense=" + write_encoder_folder(gpux_.folder(), R"({})", false).string(), "--strict-requests"});
  const Json answer = answers().at(1);
  const Json body{{"inputs", {answer.at("text"), "a"}}};
  const Json vectors = server.json(post("/embed_sparse", body.dump()));
  ASSERT_EQ(vectors.size(), 2U);
  const Json expected = answer.at("max");
  ASSERT_EQ(vectors.at(0).size(), expected.at("indices").size());
  for (std::size_t i = 0; i < vectors.at(0).size(); ++i) {
    EXPECT_EQ(vectors.at(0).at(i).at("index"), expected.at("indices").at(i));
    EXPECT_NEAR(vectors.at(0).at(i).at("value").get<double>(), expected.at("values").at(i), near);
    EXPECT_EQ(vectors.at(0).at(i).size(), 2U);
  }
  const Json named = server.json(post("/embed_sparse", R"({"inputs": "a", "return_tokens": true})"));
  EXPECT_TRUE(named.at(0).at(0).contains("token"));
  const auto refusal = [&](const std::string& path, const std::string& request) {
    const Answered answer = server.ask(post(path, request));
    EXPECT_NE(answer.status, 200) << path;
    return Json::parse(answer.body).at("error").get<std::string>();
  };
  EXPECT_THAT(refusal("/models/dense/embed_sparse", R"({"inputs": "a"})"), HasSubstr("makes no sparse vectors"));
  EXPECT_THAT(refusal("/models/splade/embed", R"({"inputs": "a"})"), HasSubstr("makes no dense vectors"));
  EXPECT_THAT(refusal("/models/splade/embed_sparse", R"({"inputs": "a", "normalize": true})"), HasSubstr("normalize"));
}

TEST_F(Heads, LateInteractionRanksAndGivesItsTokens) {
  const Serving server(gpux_, {"colbert=" + write_colbert_folder(gpux_.folder()).string()});
  const Json all = answers();
  Json texts = Json::array();
  for (const Json& answer : all) texts.push_back(answer.at("text"));
  Json body{{"query", all.at(1).at("text")}, {"texts", texts}, {"raw_scores", true}};
  const Json raw = server.json(post("/rerank", body.dump()));
  ASSERT_EQ(raw.size(), all.size());
  for (const Json& one : raw) {
    EXPECT_NEAR(one.at("score").get<double>(), all.at(1).at("max_sim").at(one.at("index").get<std::size_t>()), 1e-4);
  }
  body["raw_scores"] = false;
  const Json mean = server.json(post("/rerank", body.dump()));
  EXPECT_NEAR(mean.at(0).at("score").get<double>() * 12, raw.at(0).at("score").get<double>(), 1e-4);
  const Json document = server.json(post("/embed_all", Json{{"inputs", all.at(0).at("text")}}.dump()));
  EXPECT_EQ(document.at(0).size(), all.at(0).at("document").size() / 6);
  const Json query =
      server.json(post("/embed_all", Json{{"inputs", all.at(0).at("text")}, {"prompt_name", "query"}}.dump()));
  EXPECT_EQ(query.at(0).size(), 12U);
}

TEST_F(Heads, ZeroShotLabelsAreScored) {
  const std::string model = inference_model();
  const Json one = run({"run", model, "a fox", "--labels", "an animal,a city", "--template", "It is {}."});
  EXPECT_EQ(one.at("sequence"), "a fox");
  ASSERT_EQ(one.at("labels").size(), 2U);
  EXPECT_NEAR(one.at("scores").at(0).get<double>() + one.at("scores").at(1).get<double>(), 1, near);
  // By hand: the entailment of each pair.
  const auto logits = [&](const std::string& hypothesis) {
    return run({"run", model, "--input", Json{{"text", "a fox"}, {"text_pair", hypothesis}}.dump()})
        .at("logits")
        .at(0)
        .get<std::vector<double>>();
  };
  const double animal = std::exp(logits("It is an animal.")[0]), city = std::exp(logits("It is a city.")[0]);
  const std::size_t at = one.at("labels").at(0) == "an animal" ? 0 : 1;
  EXPECT_NEAR(one.at("scores").at(at).get<double>(), animal / (animal + city), 1e-4);
  const Json several =
      run({"run", model, "a fox", "--labels", "an animal,a city", "--template", "It is {}.", "--multi-label"});
  const std::vector<double> pair = logits("It is an animal.");
  const std::size_t place = several.at("labels").at(0) == "an animal" ? 0 : 1;
  EXPECT_NEAR(several.at("scores").at(place).get<double>(), 1 / (1 + std::exp(pair[2] - pair[0])), 1e-4);

  const Serving server(gpux_, {"nli=" + model});
  const Json body{
      {"inputs", "a fox"},
      {"parameters", {{"candidate_labels", {"an animal", "a city"}}, {"hypothesis_template", "It is {}."}}}};
  const Json served = server.json(post("/models/nli/predict", body.dump()));
  EXPECT_EQ(served.at(0).at("label"), one.at("labels").at(0));
  EXPECT_NEAR(served.at(0).at("score").get<double>(), one.at("scores").at(0).get<double>(), near);
}

TEST_F(Heads, ZeroShotLabelsAreRefusedByName) {
  const std::string other = import_task_folder(gpux_.folder(), "rank-mpnet").string();
  const Outcome refused = gpux_.run({"run", other, "a fox", "--labels", "a,b"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("natural language inference"));
  const std::string model = inference_model();
  EXPECT_EQ(gpux_.run({"run", model, "a fox", "--labels", "a,a"}).code, 6);
  EXPECT_EQ(gpux_.run({"run", model, "a fox", "--labels", "a,b", "--template", "nothing"}).code, 6);
  EXPECT_EQ(gpux_.run({"run", model, "a fox", "--template", "{}"}).code, 2);
}

TEST_F(Heads, ARankersActivationIsThatOfItsConfig) {
  const std::filesystem::path made = import_task_folder(gpux_.folder(), "rank-mpnet");
  const std::vector<std::string> arguments{"run", made.string(), "--input", R"({"query": "a", "text": ["b c d"]})"};
  const Json plain = run(arguments);
  const double logit = plain.at("logits").at(0).at(0);
  EXPECT_NEAR(plain.at("scores").at(0).get<double>(), 1 / (1 + std::exp(-logit)), near);
  Json config = Json::parse(read_file(made / "config.json"));
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.linear.Identity"}};
  write_file_atomically(made / "config.json", config.dump());
  EXPECT_NEAR(run(arguments).at("scores").at(0).get<double>(), logit, near);
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.Tanh"}};
  write_file_atomically(made / "config.json", config.dump());
  EXPECT_NEAR(run(arguments).at("scores").at(0).get<double>(), std::tanh(logit), near);
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.ReLU"}};
  write_file_atomically(made / "config.json", config.dump());
  EXPECT_NE(gpux_.run(arguments).code, 0);
}

// Before anything is converted.
TEST_F(Heads, ARankersActivationIsRefusedBeforeTheConversion) {
  const std::filesystem::path folder = write_task_folder(gpux_.folder(), "rank-mpnet");
  const std::filesystem::path made = gpux_.folder().path() / "made";
  Json config = Json::parse(read_file(folder / "config.json"));
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.ReLU"}};
  write_file_atomically(folder / "config.json", config.dump());
  // Its data would be read by the conversion.
  std::filesystem::resize_file(folder / "model.safetensors", 1000);
  const Outcome refused = gpux_.run({"import", folder.string(), "-o", made.string()});
  EXPECT_EQ(refused.code, 4) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("accepted: Sigmoid, Identity, Tanh of torch.nn"));
  EXPECT_FALSE(std::filesystem::exists(made));
}

}  // namespace
}  // namespace gpux::test
