// Models that run one after the other, as a gpux.yml says.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/serving.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using testing::HasSubstr;
using testing::Not;

const std::string input = R"({"x": [[1, 2, 3]]})";

// A step that adds 1, 2, 3; two of its results, and a sum of their products.
std::string diamond() {
  return "name: diamond\nsteps:\n"
         "  first: " +
         model("add.onnx") +
         "\n"
         "  left: {model: " +
         model("add.onnx") +
         ", inputs: {x: first.y}}\n"
         "  right: {model: " +
         model("add.onnx") +
         ", inputs: {x: first.y}}\n"
         "  join: {model: " +
         model("masked_sum.onnx") + ", inputs: {values: left.y, mask: right.y}}\n";
}

std::string chain(const std::string& settings = "") {
  return "name: chain\nsteps:\n  - {name: a, model: " + model("add.onnx") +
         "}\n  - {name: b, model: adder, inputs: {x: "
         "a.y}}\n" +
         settings;
}

class Ensemble : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(gpux_.run({"build", model("add.onnx"), "-t", "adder"}).code, 0); }

  std::string write(const std::string& text, const std::string& folder = "ensemble") const {
    gpux_.folder().write(folder + "/gpux.yml", text);
    return (gpux_.folder().path() / folder).string();
  }

  Json run(const std::string& folder, const std::string& given = input) const {
    const auto done = gpux_.run({"run", folder, "--input", given});
    EXPECT_EQ(done.code, 0) << done.err;
    return Json::parse(done.out);
  }

  Program gpux_;
};

TEST_F(Ensemble, GivesWhatItsModelsGiveOneAfterTheOther) {
  EXPECT_EQ(run(write(chain())), Json::parse(R"({"y": [[3, 6, 9]]})"));
  EXPECT_EQ(run(write(chain("outputs: {between: a.y, after: b.y}\n"))),
            Json::parse(R"({"between": [[2, 4, 6]], "after": [[3, 6, 9]]})"));
  const Json whole = run(write(diamond(), "diamond"));
  const Json apart = run(model("masked_sum.onnx"), R"({"values": [[3, 6, 9]], "mask": [[3, 6, 9]]})");
  EXPECT_EQ(whole, apart);
  const auto verbose = gpux_.run({"run", write(chain()), "--input", input, "-v"});
  EXPECT_THAT(verbose.err, HasSubstr("ran on cpu (2 of 2 nodes)"));
  EXPECT_THAT(verbose.err, Not(HasSubstr("step 'a'")));
  EXPECT_EQ(gpux_.run({"bench", write(chain()), "--runs", "3"}).code, 0);
}

TEST_F(Ensemble, IsShown) {
  const auto shown = gpux_.run({"inspect", write(diamond(), "diamond")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("left"));
  EXPECT_THAT(shown.out, HasSubstr("first.y"));
  const Json json = Json::parse(gpux_.run({"inspect", write(chain()), "--json", "--provider", "cpu"}).out);
  EXPECT_EQ(json.at("steps").at(1).at("inputs"), Json::parse(R"({"x": "a.y"})"));
  EXPECT_EQ(json.at("verdict").at("active"), Json::parse(R"(["cpu"])"));
  EXPECT_EQ(json.at("verdict").at("node_count"), 2);
}

TEST_F(Ensemble, IsServed) {
  const fs::path list = gpux_.folder().write(
      "models.yml", "models: {chain: " + write(chain()) + ", diamond: " + write(diamond(), "diamond") + "}");
  const Serving server(gpux_, {"--models", list.string()});
  EXPECT_EQ(server.json(post("/models/chain/predict", input)), Json::parse(R"({"y": [[3, 6, 9]]})"));
  const Json answer =
      server.json(post("/v2/models/diamond/infer",
                       R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]})"));
  EXPECT_EQ(answer.at("outputs").at(0).at("name"), "total");
  const Answered one = server.ask(post("/models/chain/predict", input));
  EXPECT_THAT(one.header("x-gpux-verdict"), HasSubstr("cpu"));
  EXPECT_EQ(server.json(get("/v2/models/chain")).at("inputs").at(0).at("name"), "x");
  EXPECT_EQ(server.ask(get("/v2/models/chain/ready")).status, 200);
  EXPECT_EQ(server.ask(post("/models/chain/predict", R"({"x": [[1, 2]]})")).status, 400);
  EXPECT_EQ(server.ask(post("/v2/repository/models/chain/load", "")).status, 200);
  EXPECT_EQ(server.json(post("/models/chain/predict", input)), Json::parse(R"({"y": [[3, 6, 9]]})"));
}

TEST_F(Ensemble, HasStepsInWorkerProcesses) {
  gpux_.folder().write("apart/gpux.yml", "name: apart\nmodel: {source: add.onnx}\nruntime: {isolation: process}\n");
  fs::copy_file(model("add.onnx"), gpux_.folder().path() / "apart/add.onnx");
  const std::string folder = write(
      "name: mixed\nsteps: [{name: a, model: ../apart}, {name: b, model: adder, inputs: "
      "{x: a.y}}]\n",
      "mixed");
  const Serving server(gpux_, {folder});
  EXPECT_EQ(server.json(post("/predict", input)), Json::parse(R"({"y": [[3, 6, 9]]})"));
  const Json metrics = server.json(get("/metrics", "Accept: application/json\r\n"));
  EXPECT_THAT(server.log(), HasSubstr("step 'a' ran on cpu (1 of 1 nodes)")) << "they do not run alike";
  const int worker = metrics.at("models").at(0).at("workers").at(0).at("process_id").get<int>();
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  EXPECT_TRUE(http::eventually([&] { return server.ask(post("/predict", input)).status == 200; }));
  EXPECT_EQ(server.json(post("/predict", input)), Json::parse(R"({"y": [[3, 6, 9]]})"));
}

TEST_F(Ensemble, EndsInTime) {
  const std::string folder = write("name: late\nsteps: [{name: a, model: " + model("slow.onnx") +
                                       "}, {name: b, model: " + model("slow.onnx") + ", inputs: {x: a.y}}]\n",
                                   "late");
  const Serving server(gpux_, {folder, "--timeout", "300ms"});
  Json body{{"iterations", 1LL << 40}, {"x", Json::array()}};
  for (int i = 0; i < 16; ++i) body["x"].push_back(std::vector<float>(16, 0));
  EXPECT_EQ(server.ask(post("/predict", body.dump())).status, 504);
  body["iterations"] = 1;
  EXPECT_EQ(server.ask(post("/predict", body.dump())).status, 200);
}

TEST_F(Ensemble, IsRefusedByNameWhereItDoesNotFit) {
  const auto refused = [&](const std::string& text, const char* problem) {
    const auto done = gpux_.run({"run", write(text, "wrong"), "--input", input});
    EXPECT_NE(done.code, 0) << text;
    EXPECT_THAT(done.err, HasSubstr(problem)) << text;
  };
  refused("name: e\nsteps: []\n", "'steps' has 0 steps; 1 to 32 are accepted");
  refused("name: e\nsteps: [{name: a, model: nowhere}]\n", "step 'a'");
  refused("name: e\nmodel: {source: a.onnx}\nsteps: [{name: a, model: adder}]\n", "'model'");
  refused("name: e\nruntime: {threads: {intra: 1}}\nsteps: [{name: a, model: adder}]\n", "'runtime'");
  refused("name: e\nsteps: [{name: a, model: adder, provider: cuda}]\n", "unknown key 'steps[0].provider'");
  refused("name: e\nsteps: [{name: a, model: adder, inputs: {q: p}}]\n", "its model has no input 'q'");
  write(chain());
  refused("name: e\nsteps: [{name: a, model: ../ensemble}]\n", "is an ensemble itself");
  const std::string folder = write(chain());
  for (const std::vector<std::string>& words : {std::vector<std::string>{"build", folder},
                                                {"embed", folder, "a text"},
                                                {"generate", folder, "a text"},
                                                {"verify", folder, "--reference", "cpu"},
                                                {"search", folder, "a", "b"}}) {
    const auto done = gpux_.run(words);
    EXPECT_NE(done.code, 0) << words[0];
    EXPECT_THAT(done.err, HasSubstr("'chain' is an ensemble")) << words[0];
  }
  EXPECT_NE(gpux_.run({"run", model("add.onnx"), "-c", folder + "/gpux.yml", "--input", input}).code, 0);
}

}  // namespace
}  // namespace gpux::test
