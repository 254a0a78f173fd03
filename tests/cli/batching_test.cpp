// Requests that share runs: many models whose first axis is no batch, and many whose first axis is one, asked by many
// clients at once. Each answer is compared with that of the same request alone.
#include <atomic>
#include <cmath>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/serving.h"
#include "gpux/error.h"

namespace gpux::test {
namespace {

using http::Answered;
using http::get;
using http::post;
using testing::HasSubstr;

constexpr int clients = 12;
constexpr int requests_of_a_client = 25;

// Of these no two answers are the same, also alone (batch normalization for training changes its running mean): only
// shapes are compared.
bool is_random(const std::string& name) {
  return name == "random" || name == "dropout" || name == "batch_norm_training";
}

// Numbers within rounding, all else exactly.
bool is_same(const Json& expected, const Json& got, bool shapes_alone) {
  if (expected.is_number() && got.is_number()) {
    const double a = expected, b = got;
    return shapes_alone || std::abs(a - b) <= 1e-5 + 1e-4 * std::abs(a);
  }
  if (expected.type() != got.type() || expected.size() != got.size()) return false;
  if (!expected.is_structured()) return expected == got;
  for (auto a = expected.begin(), b = got.begin(); a != expected.end(); ++a, ++b) {
    if ((expected.is_object() && a.key() != b.key()) || !is_same(*a, *b, shapes_alone)) return false;
  }
  return true;
}

struct Count {
  std::atomic<int> asked = 0, wrong = 0;
};

Json requests_in(const std::string& folder) {
  return Json::parse(read_file(model(folder + "/requests.json")));
}

std::vector<std::string> model_files(const std::string& folder) {
  std::vector<std::string> files;
  const Json requests = requests_in(folder);
  for (const auto& entry : requests.items()) files.push_back(model(folder + "/" + entry.key() + ".onnx"));
  return files;
}

// First one request after the other, which nothing can share a run with; then those of all clients at once.
void compare_answers(const Serving& server, const std::string& name, const Json& requests, Count& count) {
  std::vector<std::string> bodies;
  std::vector<Json> alone;
  for (const Json& request : requests) {
    bodies.push_back(post("/models/" + name + "/predict", request.dump()));
    alone.push_back(server.json(bodies.back()));
  }
  std::vector<std::thread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      RawClient connection(server.port());
      for (int i = 0; i < requests_of_a_client; ++i) {
        const std::size_t which = static_cast<std::size_t>(client * 7 + i) % bodies.size();
        const Answered answer = connection.ask(bodies[which]);
        ++count.asked;
        const Json got = Json::parse(answer.body, nullptr, false);
        if (answer.status == 200 && is_same(alone[which], got, is_random(name))) continue;
        if (++count.wrong <= 3) ADD_FAILURE() << name << ": " << got << " instead of " << alone[which];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::pair<int, int> runs_and_requests(const Serving& server, const std::string& name) {
  const Json counts = server.json(get("/v2/models/" + name + "/stats")).at("model_stats").at(0);
  return {counts.at("execution_count").get<int>(), counts.at("inference_stats").at("success").at("count").get<int>()};
}

Serving serving(const Program& gpux, const std::string& folder, std::vector<std::string> flags = {}) {
  std::vector<std::string> arguments = model_files(folder);
  arguments.insert(arguments.end(), {"--provider", "cpu", "--threads", "1"});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return {gpux, arguments};
}

TEST(Batching, NeverMixesRequestsOfModelsWithoutABatch) {
  const Json requests = requests_in("no_batch");
  ASSERT_GE(requests.size(), 20U);
  const Program gpux;
  Count count;
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"--max-queue-delay", "5ms"}}) {
    const Serving server = serving(gpux, "no_batch", flags);
    for (const auto& [name, own] : requests.items()) {
      const Json info = server.json(get("/models/" + name + "/info"));
      EXPECT_EQ(info.at("run_sharing").at("shared"), false) << name << info.at("run_sharing");
      // The made-up neighbours are not in the graph.
      EXPECT_EQ(info.at("run_sharing").at("source") == "not-proven", name == "graph_nodes")
          << name << info.at("run_sharing");
      compare_answers(server, name, own, count);
    }
  }
  EXPECT_EQ(count.wrong, 0) << "of " << count.asked;
  EXPECT_GE(count.asked, 20'000);
}

TEST(Batching, GoesOnForModelsWhoseFirstAxisIsTheBatch) {
  const Json requests = requests_in("batch_first");
  const Program gpux;
  Count count;
  const Serving server = serving(gpux, "batch_first", {"--max-queue-delay", "5ms"});
  for (const auto& [name, own] : requests.items()) {
    const Json sharing = server.json(get("/models/" + name + "/info")).at("run_sharing");
    EXPECT_EQ(sharing.at("shared"), true) << name << sharing;
    EXPECT_EQ(sharing.at("source"), "trial");
    compare_answers(server, name, own, count);
    const auto [runs, answers] = runs_and_requests(server, name);
    EXPECT_GE(answers, clients * requests_of_a_client);
    EXPECT_LT(runs, answers / 2) << name << ": " << answers << " requests";
  }
  EXPECT_EQ(count.wrong, 0) << "of " << count.asked;
  EXPECT_THAT(server.log(), HasSubstr("requests share runs (trial): "));
}

TEST(Batching, IsDecidedByTheUserBeforeAnyTrial) {
  const Program gpux;
  const auto write = [&](const char* file, const std::string& text) {
    write_file_atomically(gpux.folder().path() / file, text);
  };
  write("models.yml", fmt::format("models:\n"
                                  "  drifting: {{model: {0}/int8_dynamic.onnx, batch_axis: 0, max_queue_delay: 20ms}}\n"
                                  "  alone: {{model: {1}/perceptron.onnx, batch_axis: none, max_queue_delay: 20ms}}\n"
                                  "  single: {{model: {1}/perceptron.onnx, batch_size: 1}}\n",
                                  model("no_batch"), model("batch_first")));
  const Serving server(gpux, {"--models", (gpux.folder().path() / "models.yml").string()});
  const auto sharing = [&](const std::string& name) {
    return server.json(get("/models/" + name + "/info")).at("run_sharing");
  };
  EXPECT_EQ(sharing("drifting"), Json::parse(R"({"shared": true, "source": "setting",
                                                 "reason": "models.drifting.batch_axis is 0"})"));
  EXPECT_EQ(sharing("alone").at("source"), "setting");
  EXPECT_EQ(sharing("single").at("source"), "single-run");
  const Json requests = requests_in("batch_first").at("perceptron");
  Count count;
  compare_answers(server, "alone", requests, count);
  EXPECT_EQ(count.wrong, 0);
  const auto [runs, answers] = runs_and_requests(server, "alone");
  EXPECT_EQ(runs, answers);
  EXPECT_FALSE(std::filesystem::exists(gpux.home() / "sharing"));

  const Outcome refused = gpux.run({"serve", model("matmul_chain.onnx"), "--batch-axis", "0", "--port", "0"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--batch-axis is 0, but requests of this model cannot be joined along the first "
                                     "axis: input 'x' is float32[1, 16], whose first dimension is fixed"));
  EXPECT_EQ(gpux.run({"serve", model("add.onnx"), "--batch-axis", "1"}).code, 2);
}

TEST(Batching, OfAListGivesEachItemItsAnswerAlone) {
  const Program gpux;
  for (const char* folder : {"no_batch", "batch_first"}) {
    const Json models = requests_in(folder);
    for (const auto& [name, requests] : models.items()) {
      if (is_random(name)) continue;
      const std::string file = model(fmt::format("{}/{}.onnx", folder, name));
      // Long enough for a trial.
      Json list = Json::array();
      for (std::size_t i = 0; i < 70; ++i) list.push_back(requests[i % requests.size()]);
      const std::string report = (gpux.folder().path() / "report.json").string();
      const std::filesystem::path inputs = gpux.folder().path() / "inputs.json";
      write_file_atomically(inputs, list.dump());
      const Outcome all =
          gpux.run({"run", file, "--provider", "cpu", "--report", report, "--input", "@" + inputs.string()});
      ASSERT_EQ(all.code, 0) << all.err;
      const Json sharing = Json::parse(read_file(report)).at("run_sharing");
      EXPECT_EQ(sharing.at("shared"), std::string_view(folder) == "batch_first") << name << sharing;
      const Json alone =
          gpux.run({"run", file, "--provider", "cpu", "--batch-axis", "none", "--input", "@" + inputs.string()}).json();
      EXPECT_TRUE(is_same(alone, all.json(), false)) << name;
    }
  }
}

TEST(Batching, OfAShortListMakesNoTrial) {
  const Program gpux;
  const std::string report = (gpux.folder().path() / "report.json").string();
  const auto sharing = [&](const std::vector<std::string>& flags, const std::string& file = model("add.onnx")) {
    std::vector<std::string> arguments{"run",  file,      "--report",
                                       report, "--input", R"([{"x": [[1, 2, 3]]}, {"x": [[0, 0, 0]]}])"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = gpux.run(arguments);
    EXPECT_EQ(outcome.json(), Json::parse(R"([{"y": [[2, 4, 6]]}, {"y": [[1, 2, 3]]}])")) << outcome.err;
    return Json::parse(read_file(report)).at("run_sharing");
  };
  EXPECT_EQ(sharing({}).at("source"), "not-proven");
  EXPECT_FALSE(std::filesystem::exists(gpux.home() / "sharing"));
  EXPECT_EQ(sharing({"--batch-axis", "0"}).at("shared"), true);
  EXPECT_EQ(sharing({"--batch-axis", "none"}).at("source"), "setting");
}

TEST(Batching, ATrialIsMadeOnceAndShownByInspect) {
  const Program gpux;
  const std::string file = model("no_batch/standardize.onnx");
  const auto inspected = [&](const std::string& which) {
    return gpux.run({"inspect", which, "--json"}).json().at("run_sharing");
  };
  EXPECT_EQ(inspected(file), Json::parse(R"({"shared": null, "source": "not-proven",
    "reason": "a trial decides when the model is served, or run on a list", "trials": []})"));
  EXPECT_EQ(inspected(model("no_batch/int8_dynamic.onnx")).at("source"), "graph");
  EXPECT_EQ(inspected(model("no_batch/clip.onnx")).at("source"), "signature");
  EXPECT_EQ(inspected(model("matmul_chain.onnx")).at("source"), "signature");
  const auto load = [&] {
    const Serving server(gpux, {file, "--provider", "cpu"});
    EXPECT_THAT(server.log(), HasSubstr("requests run one by one (trial): an answer depends on what shares its run"));
  };
  load();
  const Json trials = inspected(file).at("trials");
  ASSERT_EQ(trials.size(), 1U);
  EXPECT_EQ(trials[0].at("provider"), "cpu");
  EXPECT_EQ(trials[0].at("shared"), false);
  EXPECT_THAT(trials[0].at("reason").get<std::string>(), HasSubstr("output 'y'"));
  EXPECT_THAT(gpux.run({"inspect", file, "--table"}).out, HasSubstr("Requests that share a run"));

  // What an earlier trial showed is taken over.
  std::filesystem::path kept;
  for (const auto& entry : std::filesystem::directory_iterator(gpux.home() / "sharing")) kept = entry.path();
  Json content = Json::parse(read_file(kept));
  content.at("trials").at(0).at("detail") = "output 'y': as it was kept";
  write_file_atomically(kept, content.dump());
  const Serving server(gpux, {file, "--provider", "cpu"});
  EXPECT_THAT(server.log(), HasSubstr("as it was kept"));
}

}  // namespace
}  // namespace gpux::test
