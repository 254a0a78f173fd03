// The models of a server while it runs: where they come from, how they change, and what its user's other commands show.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/stop_process.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using testing::HasSubstr;
using testing::Not;

const std::string input = R"({"x": [[1, 2, 3]]})";

void place(const fs::path& file, const std::string& source) {
  fs::create_directories(file.parent_path());
  // Renamed into its place: whoever looks sees one or the other.
  const fs::path made = file.parent_path() / ".new";
  fs::copy_file(model(source), made, fs::copy_options::overwrite_existing);
  fs::rename(made, file);
}

Json index_of(const Serving& server) {
  return server.json(post("/v2/repository/index", ""));
}

std::string state_of(const Serving& server, const std::string& name) {
  for (const Json& model : index_of(server)) {
    if (model.at("name") == name) return model.at("state");
  }
  return "none";
}

TEST(ServedModels, AreLoadedAndUnloadedByTheirApi) {
  const Program gpux;
  const Serving server(gpux, {"one=" + model("add.onnx"), "two=" + model("scalar.onnx")});
  EXPECT_EQ(state_of(server, "one"), "READY");
  EXPECT_EQ(server.ask(post("/v2/repository/models/one/unload", "{}")).status, 200);
  EXPECT_EQ(state_of(server, "one"), "UNAVAILABLE");
  EXPECT_EQ(server.json(post("/v2/repository/index", R"({"ready": true})")).size(), 1U);
  EXPECT_EQ(server.ask(post("/v2/models/one/infer", "{}")).status, 404);
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  // The only model that is left is the one of routes without a name.
  EXPECT_EQ(server.json(post("/predict", "3")), Json::parse(R"({"y": -3})"));
  EXPECT_EQ(server.ask(post("/v2/repository/models/one/load", "")).status, 200);
  EXPECT_EQ(state_of(server, "one"), "READY");
  EXPECT_EQ(server.json(post("/models/one/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));

  EXPECT_EQ(server.ask(post("/v2/repository/models/none/load", "")).status, 404);
  EXPECT_EQ(server.ask(post("/v2/repository/models/none/unload", "")).status, 404);
  EXPECT_EQ(server.ask(post("/v2/repository/models/one/load", R"({"parameters": {"config": "{"}})")).status, 400);
  EXPECT_EQ(
      server.ask(post("/v2/repository/models/one/load", R"({"parameters": {"config": "{\"max_batch_size\": 3}"}})"))
          .status,
      200);
  EXPECT_EQ(server.json(get("/v2/models/one/config")).at("max_batch_size"), 3);
  EXPECT_EQ(server.ask(post("/v2/repository/index", R"({"ready": 1})")).status, 400);
  EXPECT_EQ(server.ask(post("/v2/repository/index", "[")).status, 400);
}

TEST(ServedModels, TakeAProviderWithALoadUnlessAFlagSaysIt) {
  const auto load_on = [](const std::string& provider) {
    const Json config{
        {"instance_group", {{{"kind", "KIND_CPU"}}}},
        {"optimization", {{"execution_accelerators", {{"cpu_execution_accelerator", {{{"name", provider}}}}}}}}};
    return post("/v2/repository/models/one/load", Json{{"parameters", {{"config", config.dump()}}}}.dump());
  };
  const Program gpux;
  const Serving server(gpux, {"one=" + model("add.onnx")});
  EXPECT_EQ(server.ask(load_on("encoder")).status, 200);
  EXPECT_THAT(server.json(get("/models/one/info")).dump(), HasSubstr("not encoder"));
  EXPECT_EQ(server.ask(post("/v2/repository/models/one/load", "")).status, 200);
  EXPECT_THAT(server.json(get("/models/one/info")).dump(), Not(HasSubstr("not encoder")));
  EXPECT_EQ(server.ask(load_on("none")).status, 400);
  const Serving fixed(gpux, {"one=" + model("add.onnx"), "--provider", "cpu"});
  const Answered refused = fixed.ask(load_on("cpu"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("--provider"));
}

TEST(ServedModels, AreHeldToTheLimitsOfTheirOperator) {
  const Program gpux;
  const TemporaryFolder folder;
  const auto list = [&](const std::string& settings) {
    return folder.write("models.yml", "models: {adder: {model: " + model("add.onnx") + ", " + settings +
                                          "}, free: {model: " + model("add.onnx") + "}}");
  };
  const Serving server(gpux,
                       {"--models", list("limits: {memory: 2GB, processors: 1, requests_per_minute: 2}").string()});
  EXPECT_EQ(server.ask(post("/models/adder/predict", input)).status, 200);
  EXPECT_EQ(server.ask(post("/models/adder/predict", input)).status, 200);
  const Answered refused = server.ask(post("/models/adder/predict", input));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("the model 'adder' may"));
  EXPECT_EQ(server.ask(post("/models/free/predict", input)).status, 200);
  EXPECT_EQ(server.ask(get("/models/adder/info")).status, 200);
  const std::string metrics = server.ask(get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr(R"(gpux_model_limit{model="adder",version="1.0.0",limit="processors"} 1)"));
  EXPECT_THAT(
      metrics,
      HasSubstr(R"(gpux_model_limit_refused_total{model="adder",version="1.0.0",limit="requests_per_minute"} 1)"));
  EXPECT_THAT(metrics, Not(HasSubstr(R"(gpux_model_limit{model="free")")));
  const Json servers = Json::parse(gpux.run({"ps", "--json"}).out);
  EXPECT_EQ(servers.at(0).at("limits").at("adder").at("memory"), 2'000'000'000);
  EXPECT_THAT(gpux.run({"ps", "--table"}).out, HasSubstr("adder: memory 2.0 GB, processors 1, requests_per_minute 2"));
  // What was used remains used, whatever the new limit is.
  list("limits: {requests_per_minute: 3}");
  EXPECT_EQ(server.ask(post("/v2/repository/models/adder/load", "")).status, 200);
  EXPECT_EQ(server.ask(post("/models/adder/predict", input)).status, 200);
  EXPECT_EQ(server.ask(post("/models/adder/predict", input)).status, 429);
  list("limits: {processors: 1}, workers: 2");
  const Answered unfit = server.ask(post("/v2/repository/models/adder/load", ""));
  EXPECT_NE(unfit.status, 200);
  EXPECT_THAT(unfit.body, HasSubstr("limits.processors is 1, and 2 workers with 1 thread each are asked for"));
}

// The nice values of the threads of a process.
std::multiset<int> nice_values(int pid) {
  std::multiset<int> values;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    values.insert(::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(task.path().filename().string()))));
  }
  return values;
}

TEST(ServedModels, ShareTheProcessorsByTheirWeights) {
  const Program gpux;
  const TemporaryFolder folder;
  const fs::path list = folder.write("models.yml", "models: {quick: {model: " + model("add.onnx") +
                                                       ", weight: 400}, slow: {model: " + model("scalar.onnx") +
                                                       ", workers: 2}, apart: {model: " + model("add.onnx") +
                                                       ", isolation: process, weight: 200}}");
  const Serving server(gpux, {"--models", list.string()});
  EXPECT_EQ(server.json(post("/models/slow/predict", "3")), Json::parse(R"({"y": -3})"));
  EXPECT_EQ(server.json(post("/models/quick/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  const Json servers = Json::parse(gpux.run({"ps", "--json"}).out);
  const std::multiset<int> values = nice_values(servers.at(0).at("pid").get<int>());
  const int own = ::getpriority(PRIO_PROCESS, 0);
  EXPECT_GE(values.count(own + 6), 2) << "threads of 'slow'";
  EXPECT_GE(values.count(own), 3) << "threads of the server and of 'quick'";
  const Json metrics = server.json(get("/metrics", "Accept: application/json\r\n"));
  for (const Json& one : metrics.at("models")) {
    if (one.at("name") != "apart") continue;
    const int worker = one.at("workers").at(0).at("process_id").get<int>();
    EXPECT_EQ(nice_values(worker).count(own + 3), nice_values(worker).size());
  }
}

TEST(ServedModels, AnswerToTheirTagsAndIds) {
  const Program gpux;
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "adder:v1"}).code, 0);
  ASSERT_EQ(gpux.run({"build", model("scalar.onnx"), "-t", "team/negate"}).code, 0);
  const Json images = Json::parse(gpux.run({"images", "--json"}).out);
  const std::string id = images.at(0).at("id");
  ASSERT_EQ(images.at(0).at("name"), "adder");
  const Serving server(gpux, {"one=adder:v1", "two=team/negate", "--default", "adder:v1"});
  const std::string body = R"({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})";
  for (const std::string& alias : {std::string("adder:v1"), std::string("adder%3Av1"), std::string("adder%3av1"), id,
                                   id.substr(7), id.substr(7, 12), "sha256%3A" + id.substr(7, 12)}) {
    SCOPED_TRACE(alias);
    EXPECT_EQ(server.json(post("/v2/models/" + alias + "/infer", body)).at("model_name"), "one");
    EXPECT_EQ(server.json(post("/models/" + alias + "/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
    EXPECT_EQ(server.json(get("/v2/models/" + alias)).at("name"), "one");
    EXPECT_EQ(server.json(get("/v2/models/" + alias + "/ready")).at("name"), "one");
    EXPECT_EQ(server.json(get("/models/" + alias + "/info")).at("name"), "one");
    EXPECT_EQ(server.ask(get("/models/" + alias + "/health/ready")).status, 200);
    EXPECT_EQ(server.json(get("/v1/models/" + alias)).at("id"), "one");
    EXPECT_EQ(server.ask(post("/v2/repository/models/" + alias + "/unload", "")).status, 200);
    EXPECT_EQ(state_of(server, "one"), "UNAVAILABLE");
    EXPECT_EQ(server.ask(post("/v2/repository/models/" + alias + "/load", "")).status, 200);
    EXPECT_EQ(state_of(server, "one"), "READY");
  }
  EXPECT_EQ(server.json(get("/v2/models/team%2Fnegate")).at("name"), "two");
  EXPECT_EQ(server.json(get("/v2/models/team%2Fnegate:latest")).at("name"), "two");
  EXPECT_EQ(server.json(post("/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})")) << "--default";
  for (const char* other : {"adder", "adder:v2", "one:v1", "negate", "0000"}) {
    EXPECT_EQ(server.ask(get("/v2/models/" + std::string(other))).status, 404) << other;
  }
}

TEST(ServedModels, AreNamedWhereAnAliasMeansTwo) {
  const Program gpux;
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "adder:v1"}).code, 0);
  const Serving server(gpux, {"one=adder:v1", "two=adder:v1"});
  const Answered refused = server.ask(get("/v2/models/adder:v1"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("'adder:v1' means several models, use one of their names: 'one' (version"));
  EXPECT_THAT(refused.body, HasSubstr("'two' (version"));
  EXPECT_EQ(server.ask(post("/v2/repository/models/adder:v1/unload", "")).status, 400);
  EXPECT_EQ(server.ask(post("/v2/repository/models/adder:v1/load", "")).status, 400);
}

TEST(ServedModels, AreChosenByTheInputsThatABodyNames) {
  const Program gpux;
  const Serving server(gpux, {"adder=" + model("add.onnx"), "divider=" + model("divide.onnx")});
  const Json inputs = server.json(get("/models/divider/info")).at("inputs");
  ASSERT_NE(inputs.at(0).at("name"), "x");
  EXPECT_EQ(server.json(post("/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_THAT(server.ask(post("/predict", R"({"q": 1})")).body, HasSubstr("name one: adder, divider"));
}

TEST(ServedModels, AreServedInSeveralVersionsAtOnce) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "models";
  place(folder / "adder/2/model.onnx", "add.onnx");
  place(folder / "adder/10/model.onnx", "scalar.onnx");
  place(folder / "adder/9/model.onnx", "add.onnx");
  const Serving server(gpux, {"--repository", folder.string(), "--watch", "20ms", "--version-policy", "latest:2"});
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["9", "10"])"));
  // The highest answers, and the other one by its number.
  EXPECT_EQ(server.json(get("/v2/models/adder")), server.json(get("/v2/models/adder/versions/10")));
  EXPECT_EQ(server.ask(get("/v2/models/adder/versions/2")).status, 404);
  EXPECT_EQ(server
                .json(post("/v2/models/adder/versions/9/infer",
                           R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]})"))
                .at("model_version"),
            "9");
  place(folder / "adder/11/model.onnx", "add.onnx");
  EXPECT_TRUE(http::eventually(
      [&] { return server.json(get("/v2/models/adder")).at("versions") == Json::parse(R"(["10", "11"])"); }));
  const Serving some(gpux, {"--repository", folder.string(), "--version-policy", "2,11,12"});
  EXPECT_EQ(some.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["2", "11"])"));
  EXPECT_EQ(gpux.run({"serve", "--repository", folder.string(), "--version-policy", "newest", "--port", "0"}).code, 2);
  EXPECT_EQ(gpux.run({"serve", model("add.onnx"), "--version-policy", "all", "--port", "0"}).code, 2);
}

TEST(ServedModels, HaveTheConfigurationOfTritonsRepositories) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "models";
  for (const char* version : {"1", "2"}) place(folder / "adder" / version / "add.onnx", "add.onnx");
  gpux.folder().write("models/adder/config.pbtxt", R"(
    name: "adder"
    platform: "onnxruntime_onnx"
    max_batch_size: 4
    input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
    version_policy { all {} }
    default_model_filename: "add.onnx"
  )");
  place(folder / "other/1/model.onnx", "add.onnx");
  gpux.folder().write("models/other/config.pbtxt", "ensemble_scheduling { step [] }");
  place(folder / "wrong/1/model.onnx", "add.onnx");
  gpux.folder().write("models/wrong/config.pbtxt", R"(input [ { name: "q" data_type: TYPE_FP32 dims: [ 3 ] } ])");
  const Serving server(gpux, {"--repository", folder.string()});
  const auto batch_size = [&] { return server.json(get("/v2/models/adder/config")).at("max_batch_size"); };
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["1", "2"])"));
  EXPECT_EQ(batch_size(), 4);
  EXPECT_EQ(server.json(post("/models/adder/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  const std::string index = index_of(server).dump();
  EXPECT_THAT(index, HasSubstr("ensemble_scheduling"));
  EXPECT_THAT(index, HasSubstr("the model has no input 'q'"));

  // A request to load a model may bring another configuration.
  const auto load = [&](const Json& config) {
    return server.ask(
        post("/v2/repository/models/adder/load", Json{{"parameters", {{"config", config.dump()}}}}.dump()));
  };
  EXPECT_EQ(load({{"max_batch_size", 2}, {"default_model_filename", "add.onnx"}}).status, 200);
  EXPECT_EQ(batch_size(), 2);
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["2"])"));
  // One that cannot be kept to changes nothing.
  const Answered refused = load({{"sequence_batching", Json::object()}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("sequence_batching"));
  EXPECT_EQ(load({{"name", "other"}}).status, 400);
  const Json unknown = {{"name", "q"}, {"data_type", "TYPE_FP32"}, {"dims", {3}}};
  EXPECT_NE(load({{"max_batch_size", 3}, {"input", Json::array({unknown})}}).status, 200);
  EXPECT_EQ(batch_size(), 2);
  EXPECT_EQ(server.ask(post("/v2/repository/models/adder/load", R"({"parameters": {"config": {}}})")).status, 400);
  EXPECT_EQ(server.ask(post("/v2/repository/models/adder/load", R"({"parameters": {"file:1/a": "eA=="}})")).status,
            400);
  // Without one, that of the folder counts again.
  EXPECT_EQ(server.ask(post("/v2/repository/models/adder/load", "")).status, 200);
  EXPECT_EQ(batch_size(), 4);
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["1", "2"])"));
}

TEST(ServedModels, ComeFromAFolderThatIsWatched) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "models";
  place(folder / "adder/2/model.onnx", "add.onnx");
  place(folder / "adder/10/model.onnx", "add.onnx");
  gpux.folder().write("models/broken/1/model.onnx", "no model");
  Serving server(gpux, {"--repository", folder.string(), "--watch", "20ms"});
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["10"])"));
  EXPECT_EQ(state_of(server, "broken"), "UNAVAILABLE");
  EXPECT_THAT(index_of(server).dump(), Not(HasSubstr(folder.string())));
  EXPECT_THAT(server.log(), HasSubstr(folder.string()));

  place(folder / "adder/11/model.onnx", "add.onnx");
  EXPECT_TRUE(http::eventually([&] { return server.json(get("/v2/models/adder")).at("versions").at(0) == "11"; }));
  place(folder / "broken/1/model.onnx", "scalar.onnx");
  EXPECT_TRUE(http::eventually([&] { return state_of(server, "broken") == "READY"; }));
  // A version that cannot be loaded leaves the one before in service.
  gpux.folder().write("models/adder/11/model.onnx", "damaged");
  EXPECT_TRUE(http::eventually([&] { return server.log().find("model adder 11: ") != std::string::npos; }));
  EXPECT_EQ(server.json(post("/models/adder/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  // Nor does one whose file is still on its way take its place.
  fs::create_directories(folder / "adder/12");
  EXPECT_TRUE(http::eventually([&] { return server.log().find("model adder 12: ") != std::string::npos; }));
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["11"])"));
  EXPECT_EQ(server.json(post("/models/adder/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  place(folder / "adder/12/model.onnx", "add.onnx");
  EXPECT_TRUE(http::eventually([&] { return index_of(server).dump().find(R"("11")") == std::string::npos; }));
  EXPECT_EQ(server.json(get("/v2/models/adder")).at("versions"), Json::parse(R"(["12"])"));
  // What is wrong now is said, not what was.
  gpux.folder().write("models/adder/13/gpux.yml", "name: [");
  EXPECT_TRUE(http::eventually([&] { return index_of(server).dump().find("gpux.yml:") != std::string::npos; }));
  EXPECT_THAT(index_of(server).dump(), Not(HasSubstr(folder.string())));
  fs::remove_all(folder / "adder/13");
  // A model goes with its last version.
  for (const char* version : {"2", "10", "11", "12"}) fs::remove_all(folder / "adder" / version);
  EXPECT_TRUE(http::eventually([&] { return state_of(server, "adder") == "none"; }));
  fs::remove_all(folder / "broken");
  EXPECT_TRUE(http::eventually([&] { return state_of(server, "broken") == "none"; }));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

TEST(ServedModels, ComeFromAList) {
  const Program gpux;
  place(gpux.folder().path() / "adder.onnx", "add.onnx");
  const auto list = gpux.folder().write("models.yml",
                                        "default: small\nmodels:\n  plain: adder.onnx\n"
                                        "  small: {model: adder.onnx, version: 3, batch_size: 2, "
                                        "workers: auto, timeout: 1m, warm_up: [{batch: 2}]}\n");
  const Serving server(gpux, {"--models", list.string()});
  EXPECT_EQ(server.json(get("/info")).at("max_batch_size"), 2);
  EXPECT_EQ(server.json(get("/info")).at("version"), "3");
  EXPECT_EQ(server.json(get("/models/plain/info")).at("max_batch_size"), 32);
  EXPECT_EQ(server.json(get("/models/plain/info")).at("max_batch_cost"), nullptr);
  EXPECT_THAT(server.log(), HasSubstr("runs/s"));
  EXPECT_EQ(server.json(post("/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
}

TEST(ServedModels, AreServedAsGpuxYmlSays) {
  const Program gpux;
  place(gpux.folder().path() / "adder.onnx", "add.onnx");
  const auto project = gpux.folder().write(
      "gpux.yml",
      "name: adder\nmodel: {source: adder.onnx}\nserving: {port: 0, host: localhost, batch_size: 4, "
      "max_queue: 7, timeout: 5, workers: 2}\n");
  const Serving server(gpux, {project.string(), "--host", "127.0.0.1"});
  EXPECT_EQ(server.json(get("/info")).at("max_batch_size"), 4);
  EXPECT_EQ(server.json(get("/info")).at("max_queue"), 7);
  const Outcome twice = gpux.run({"serve", project.string(), "--max-workers", "1", "--port", "0"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("max_workers is 1"));
}

// Each of these is full only with the others, and waits for them.
TEST(ServedModels, ShareRunsThoughTheirInputsAreOfDifferentLengths) {
  const Program gpux;
  place(gpux.folder().path() / "sums.onnx", "masked_sum.onnx");
  const auto project = gpux.folder().write("gpux.yml",
                                           "name: sums\nmodel: {source: sums.onnx}\n"
                                           "serving: {batch_size: 4, max_batch_cost: 20, max_queue_delay: 1h, "
                                           "padding: {values: 1e9, mask: 0}}\n");
  const std::vector<std::string> bodies{R"({"values": [[1, 2, 3]], "mask": [[1, 0, 1]]})",
                                        R"({"values": [[1], [7]], "mask": [[1], [1]]})",
                                        R"({"values": [[1, 2, 3, 4, 5]], "mask": [[1, 1, 1, 1, 0]]})"};
  std::vector<Json> alone, shared(bodies.size());
  {
    const Serving server(gpux, {model("masked_sum.onnx")});
    for (const std::string& body : bodies) alone.push_back(server.json(post("/predict", body)));
  }
  EXPECT_EQ(alone.front(), Json::parse(R"({"total": [4], "doubled": [[2, 4, 6]]})"));
  const Serving server(gpux, {project.string()});
  EXPECT_EQ(server.json(get("/info")).at("max_batch_cost"), 20);
  EXPECT_EQ(server.json(get("/info")).at("padding"), Json::parse(R"(["values", "mask"])"));
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    clients.emplace_back([&, i] { shared[i] = server.json(post("/predict", bodies[i])); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(shared, alone);
  const Json batches = server.json(get("/v2/models/sums/stats")).at("model_stats").at(0).at("batch_stats");
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches.at(0).at("batch_size"), 4);
  EXPECT_EQ(batches.at(0).at("compute_infer").at("count"), 1);
}

TEST(ServedModels, AreRefusedWithPaddingThatDoesNotFitThem) {
  const Program gpux;
  place(gpux.folder().path() / "sums.onnx", "masked_sum.onnx");
  place(gpux.folder().path() / "adder.onnx", "add.onnx");
  const auto project =
      gpux.folder().write("gpux.yml", "name: sums\nmodel: {source: sums.onnx}\nserving:\n  padding: {values: 0}\n");
  const Outcome undeclared = gpux.run({"serve", project.string(), "--port", "0"});
  EXPECT_EQ(undeclared.code, 3);
  EXPECT_THAT(undeclared.err, HasSubstr("gpux.yml:4:3: 'serving.padding.values': input 'mask' has its size 'seq' too; "
                                        "add 'serving.padding.mask'\n"));
  const auto list = gpux.folder().write("models.yml", "models:\n  adder: {model: adder.onnx, padding: {x: 0}}\n");
  const Outcome fixed = gpux.run({"serve", "--models", list.string(), "--port", "0"});
  EXPECT_EQ(fixed.code, 3);
  EXPECT_THAT(fixed.err, HasSubstr("models.yml: 'models.adder.padding.x': float32[batch, 3] has no free size beyond"));
  // A list of models has the last word: an empty map takes the setting away.
  const auto without = gpux.folder().write(
      "models.yml", "models:\n  sums: {model: " + project.parent_path().string() + ", padding: {}}\n");
  const Serving server(gpux, {"--models", without.string(), "--max-batch-cost", "64"});
  EXPECT_EQ(server.json(get("/info")).at("padding"), Json::array());
  EXPECT_EQ(server.json(get("/info")).at("max_batch_cost"), 64);
}

TEST(ServedModels, MakeRoomForEachOther) {
  const Program gpux;
  // A budget that no two models fit into: each is loaded again when it is asked for.
  const Serving server(gpux, {"one=" + model("add.onnx"), "two=" + model("add.onnx"), "--memory-budget", "1"});
  EXPECT_EQ(index_of(server).size(), 2U);
  for (const char* name : {"one", "two", "one", "two"}) {
    EXPECT_EQ(server.json(post("/models/" + std::string(name) + "/predict", input)),
              Json::parse(R"({"y": [[2, 4, 6]]})"));
    EXPECT_EQ(state_of(server, name), "READY");
    EXPECT_EQ(state_of(server, name == std::string("one") ? "two" : "one"), "UNAVAILABLE");
  }
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  EXPECT_EQ(server.json(get("/health")).at("status"), "healthy");
  EXPECT_EQ(server.json(get("/v2/models/stats")).at("model_stats").size(), 2U);
  // The one that is not in memory is known all the same, and asking about it does not bring it back.
  EXPECT_EQ(server.json(get("/v2/models/one")).at("inputs").at(0).at("name"), "x");
  EXPECT_EQ(server.json(get("/v2/models/one/config")).at("input").at(0).at("data_type"), "TYPE_FP32");
  EXPECT_EQ(server.json(get("/v2/models/one/ready")).at("ready"), true);
  EXPECT_EQ(server.json(get("/v2/models/one/stats")).at("model_stats").at(0).at("inference_count"), 2);
  EXPECT_EQ(server.json(get("/models/one/info")).at("name"), "one");
  EXPECT_EQ(server.ask(get("/models/one/health/ready")).status, 200);
  EXPECT_EQ(server.json(get("/models")).at("models").size(), 2U);
  EXPECT_EQ(state_of(server, "one"), "UNAVAILABLE");
}

TEST(ServedModels, OfAnEmptyStoreComeWithThePackages) {
  const Program gpux;
  const Serving server(gpux, {"--no-grpc"});
  EXPECT_THAT(server.log(), HasSubstr("the store holds no model yet: 'gpux pull' and 'gpux import' put some there"));
  EXPECT_EQ(server.ask(post("/models/sums/predict", input)).status, 404);
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "sums"}).code, 0);
  EXPECT_EQ(server.json(post("/models/sums/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
}

// As tritonclient's get_model_config() asks for it.
TEST(ServedModels, HaveAConfiguration) {
  const Program gpux;
  const Serving server(gpux, {"adder=" + model("add.onnx"), "--max-batch-size", "8", "--max-queue-delay", "2ms"});
  const Json config = server.json(get("/v2/models/adder/config"));
  EXPECT_EQ(config, server.json(get("/v2/models/adder/versions/1.0.0/config")));
  EXPECT_EQ(config.at("name"), "adder");
  EXPECT_EQ(config.at("platform"), "onnx_onnxv1");
  EXPECT_EQ(config.at("output").at(0).at("name"), "y");
  const bool is_batched = server.json(get("/models/adder/info")).at("batching");
  EXPECT_EQ(config.at("max_batch_size"), is_batched ? 8 : 0);
  EXPECT_EQ(config.at("input").at(0).at("dims"), is_batched ? Json::parse("[3]") : Json::parse("[-1, 3]"));
  if (is_batched) {
    EXPECT_EQ(config.at("dynamic_batching").at("max_queue_delay_microseconds"), 2000);
  }
  EXPECT_EQ(server.ask(get("/v2/models/none/config")).status, 404);
}

std::size_t count_of(const std::string& words, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

// A list that cannot be read, and a model that is missing, cost neither the others nor the watching.
TEST(ServedModels, AreWatchedWhateverIsWrongWithOthers) {
  const Program gpux;
  place(gpux.folder().path() / "a.onnx", "add.onnx");
  place(gpux.folder().path() / "b.onnx", "add.onnx");
  const std::string both = "models:\n  a: a.onnx\n  b: b.onnx\n";
  const auto list = gpux.folder().write("models.yml", both);
  const Serving server(gpux, {"--models", list.string(), "--watch", "20ms"});
  // One model's file is gone.
  fs::remove(gpux.folder().path() / "a.onnx");
  EXPECT_TRUE(http::eventually([&] { return server.log().find("model a ") != std::string::npos; })) << server.log();
  EXPECT_EQ(server.json(post("/models/a/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})")) << "it serves on";
  EXPECT_EQ(server.json(get("/health")).at("status"), "degraded");
  EXPECT_EQ(server.ask(post("/v2/repository/models/b/load", "")).status, 200);
  place(gpux.folder().path() / "b.onnx", "multiply.onnx");
  EXPECT_TRUE(http::eventually([&] { return server.json(get("/v2/models/b")).at("inputs").at(0).at("name") == "a"; }))
      << "the other one is watched";
  // A list that is no list.
  write_file_atomically(list, "models: [");
  EXPECT_TRUE(
      http::eventually([&] { return server.log().find("the list of models cannot be read") != std::string::npos; }));
  EXPECT_EQ(server.json(post("/models/a/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_EQ(server.ask(post("/v2/repository/models/b/load", "")).status, 200);
  // Both come back.
  place(gpux.folder().path() / "a.onnx", "scalar.onnx");
  // As a whole: half of a list is another reason.
  write_file_atomically(list, both + "  c: b.onnx\n");
  EXPECT_TRUE(http::eventually([&] { return state_of(server, "c") == "READY"; })) << server.log();
  EXPECT_TRUE(http::eventually([&] { return server.json(get("/health")).at("status") == "healthy"; })) << server.log();
  EXPECT_EQ(server.json(post("/models/a/predict", "3")), Json::parse(R"({"y": -3})"));
  EXPECT_EQ(count_of("the list of models cannot be read", server.log()), 1U) << "each reason is logged once";
}

// A model is more than its ONNX file.
TEST(ServedModels, AreLoadedAgainWhenAnyOfTheirFilesChanges) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "package";
  place(folder / "model.onnx", "add.onnx");
  place(folder / "data/weights.bin", "add.onnx");
  gpux.folder().write("package/gpux.yml", "name: adder\nmodel: {source: model.onnx, files: [data/weights.bin]}\n");
  gpux.folder().write("package/tokenizer.json", "{}");
  const Serving server(gpux, {folder.string(), "--watch", "20ms"});
  std::size_t loads = count_of("adder 1.0.0 is ready", server.log());
  const auto is_loaded_again = [&] {
    const bool again = http::eventually([&] { return count_of("adder 1.0.0 is ready", server.log()) > loads; });
    loads = count_of("adder 1.0.0 is ready", server.log());
    return again;
  };
  gpux.folder().write("package/tokenizer.json", "{ }");
  EXPECT_TRUE(is_loaded_again()) << "tokenizer.json";
  gpux.folder().write("package/config.json", "{}");
  EXPECT_TRUE(is_loaded_again()) << "a config.json that was not there";
  gpux.folder().write("package/data/weights.bin", "other");
  EXPECT_TRUE(is_loaded_again()) << "model.files";
  gpux.folder().write("package/gpux.yml", "name: adder\nmodel: {source: model.onnx, files: [data/weights.bin]}\n#\n");
  EXPECT_TRUE(is_loaded_again()) << "gpux.yml";
}

// Counts go on over reloads, and no request sees one.
TEST(ServedModels, AreReloadedUnderLoadWithoutAFailure) {
  const Program gpux;
  const Serving server(gpux, {"adder=" + model("add.onnx")});
  std::atomic<bool> ended = false;
  std::atomic<std::uint64_t> answered = 0, failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!ended) {
        const bool good = server.ask(post("/models/adder/predict", input)).status == 200;
        ++(good ? answered : failed);
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server.ask(post("/v2/repository/models/adder/load", "")).status, 200);
  EXPECT_TRUE(http::eventually([&] { return answered > 20; }));
  ended = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0U);
  EXPECT_EQ(server.json(get("/v2/models/adder/stats"))
                .at("model_stats")
                .at(0)
                .at("inference_stats")
                .at("success")
                .at("count"),
            answered.load());
}

// The example provider's computations wait for as long as the file is not there.
TEST(ServedModels, AreUnreadyWhileTheirDeviceHangs) {
  const Program gpux;
  const auto release = gpux.folder().write("release", "");
  const Serving server(
      gpux,
      {"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"), "--provider-library",
       std::string("example=").append(GPUX_EXAMPLE_PROVIDER), "--provider", "example,cpu", "--timeout", "300ms"},
      {{"GPUX_EXAMPLE_FAIL", "hang"}, {"GPUX_EXAMPLE_RELEASE", release.string()}});
  ASSERT_THAT(server.log(), HasSubstr("ran on example")) << server.log();
  const Json inputs = server.json(get("/models/mul/info")).at("inputs");
  std::string body = "{";
  for (const Json& one : inputs) {
    std::string value = "2";
    for (std::size_t i = 0; i < one.at("shape").size(); ++i) {
      const Json& size = one.at("shape").at(i);
      std::string list = "[";
      for (int n = size.is_number() ? size.get<int>() : 1; n > 0; --n) list += (list.size() == 1 ? "" : ",") + value;
      value = list + "]";
    }
    body += (body.size() == 1 ? "\"" : ",\"") + one.at("name").get<std::string>() + "\":" + value;
  }
  body += "}";
  EXPECT_EQ(server.ask(post("/models/mul/predict", body)).status, 200);
  EXPECT_EQ(server.ask(get("/v2/models/mul/ready")).status, 200);

  fs::remove(release);
  // Answered at its deadline, though the device holds the run; then a probe of what does not come back.
  EXPECT_EQ(server.ask(post("/models/mul/predict", body)).status, 504);
  EXPECT_TRUE(http::eventually([&] {
    return server.ask(get("/metrics")).body.find("gpux_overdue_run_count{model=\"mul\",version=\"1.0.0\"} 1") !=
           std::string::npos;
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(5100));  // a success this late counts as a probe no longer
  EXPECT_EQ(server.ask(get("/v2/models/mul/ready")).status, 503);
  const Answered ready = server.ask(get("/health/ready"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr("mul"));
  EXPECT_EQ(server.ask(get("/health/live")).status, 200);

  gpux.folder().write("release", "");
  EXPECT_TRUE(http::eventually([&] { return server.ask(get("/v2/models/mul/ready")).status == 200; }));
  EXPECT_EQ(server.ask(post("/models/mul/predict", body)).status, 200);
}

TEST(ServedModels, HaveRunsInFlightWhoseCopiesOverlap) {
  struct Line {
    std::vector<std::string> more;
    std::string said;  // empty: nothing of runs in flight
  };

  for (const Line& line : std::vector<Line>{
           {{"--isolation", "thread"}, "2 runs in flight: 1 computing, the others copying inputs or outputs"},
           {{"--isolation", "thread", "--runs-in-flight", "3"}, "3 runs in flight: 1 computing"},
           {{"--isolation", "thread", "--runs-in-flight", "1"}, ""},
           {{"--isolation", "thread", "--workers", "2"}, ""},
           {{"--isolation", "process"}, "2 runs in flight: 1 computing, the others copying inputs or outputs"},
           {{"--isolation", "process", "--runs-in-flight", "3"}, "3 runs in flight: 1 computing"},
           {{"--isolation", "process", "--runs-in-flight", "1"}, ""}}) {
    SCOPED_TRACE(line.more.back());
    const Program gpux;
    std::vector<std::string> arguments{"mul=" + model("multiply.onnx"), "--provider-library",
                                       std::string("example=") + GPUX_EXAMPLE_PROVIDER, "--provider", "example,cpu"};
    arguments.insert(arguments.end(), line.more.begin(), line.more.end());
    const Serving server(gpux, arguments);
    if (line.said.empty()) {
      EXPECT_THAT(server.log(), Not(HasSubstr("in flight")));
    } else {
      EXPECT_THAT(server.log(), HasSubstr(line.said));
    }
    const Answered answer = server.ask(post("/models/mul/predict", R"({"a": [1, 2, 3], "b": [4, 5, 6]})"));
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  const Program gpux;
  const Outcome many = gpux.run({"serve", "mul=" + model("multiply.onnx"), "--runs-in-flight", "17", "--port", "0"});
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.err, HasSubstr("--runs-in-flight"));
}

// Each session of the example provider fails its computation number 20 and no other: as many requests that failed, or
// were moved to another session, as many sessions have served.
TEST(ServedModels, HaveASessionOnEachDevice) {
  const Program gpux;
  const std::string body = R"({"a": [1, 2, 3], "b": [4, 5, 6]})";

  struct Line {
    const char* devices;
    std::vector<std::string> more;
    int sessions;
  };

  for (const Line& line : std::vector<Line>{{"1", {}, 1}, {"2", {}, 2}, {"3", {"--max-workers", "2"}, 2}}) {
    SCOPED_TRACE(std::string(line.devices) + " devices");
    std::vector<std::string> arguments{"mul=" + model("multiply.onnx"),
                                       "--provider-library",
                                       std::string("example=") + GPUX_EXAMPLE_PROVIDER,
                                       "--provider",
                                       "example,cpu",
                                       "--workers",
                                       "devices",
                                       "--max-batch-size",
                                       "1"};
    arguments.insert(arguments.end(), line.more.begin(), line.more.end());
    const Serving server(gpux, arguments, {{"GPUX_EXAMPLE_DEVICES", line.devices}, {"GPUX_EXAMPLE_FAIL", "run:20"}});
    EXPECT_THAT(server.log(), HasSubstr(std::to_string(line.sessions) + " workers, one a device"));

    const std::string metrics = server.ask(get("/metrics")).body;
    for (int i = 0; i < 3; ++i) {
      const std::string labels = R"(provider="example",index=")" + std::to_string(i) + '"';
      EXPECT_EQ(metrics.find(labels) != std::string::npos, i < line.sessions) << labels;
    }

    std::atomic<int> failed = 0, wrong = 0, answered = 0;
    std::atomic<bool> ends = false;
    const auto ask = [&] {
      RawClient client(server.port());
      while (!ends && wrong == 0) {
        const http::Answered answer = client.ask(post("/predict", body));
        if (answer.status == 503) {
          ++failed;
        } else if (answer.status == 200 && Json::parse(answer.body) == Json::parse(R"({"y": [4, 10, 18]})")) {
          ++answered;
        } else {
          ++wrong;
        }
      }
    };
    const auto moved = [&] {
      const Json page = server.json(get("/metrics", "Accept: application/json\r\n"));
      return page.at("models").at(0).at("moved_requests").get<int>();
    };
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) clients.emplace_back(ask);
    (void)http::eventually([&] { return answered >= 100 && failed + moved() >= line.sessions; });
    ends = true;
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(failed + moved(), line.sessions);
    if (line.sessions == 1) EXPECT_EQ(failed, 1);
    EXPECT_EQ(wrong, 0);
    EXPECT_GE(answered, 100);
  }
}

// The provider's own option would put every session on the same device.
TEST(ServedModels, RefuseADeviceOfTheOptionsWithASessionOnEach) {
  const Program gpux;
  const Outcome refused = gpux.run({"serve", "mul=" + model("multiply.onnx"), "--port", "0", "--no-grpc",
                                    "--provider-library", std::string("example=") + GPUX_EXAMPLE_PROVIDER, "--provider",
                                    "example", "--workers", "devices", "--provider-option", "example.device=1"},
                                   {.environment = {"GPUX_EXAMPLE_DEVICES=2"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("workers devices: example has a session for device"));
}

// All models of a server share one ONNX Runtime, and OpenVINO's bridge works with its own only.
TEST(ServedModels, AreRefusedWhereTheyNeedAnotherOnnxRuntime) {
  const fs::path openvino = fs::path(GPUX_DEPS_DIR) / "openvino";
  if (!fs::exists(openvino)) GTEST_SKIP() << "no OpenVINO in " GPUX_DEPS_DIR ": scripts/setup fetches it";
  const Program gpux;
  fs::create_directories(gpux.home());
  fs::create_directory_symlink(openvino, gpux.home() / "lib");
  const auto list = [&](const std::string& first, const std::string& second) {
    return gpux.folder()
        .write("models.yml", "models:\n  a: {model: " + model("add.onnx") + ", provider: " + first +
                                 "}\n  b: {model: " + model("multiply.onnx") + ", provider: " + second + "}\n")
        .string();
  };
  const Outcome refused = gpux.run({"serve", "--models", list("cpu", "openvino"), "--port", "0", "--no-grpc"});
  EXPECT_EQ(refused.code, 5) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("openvino was requested (the list of models), and it needs another ONNX Runtime"));
  EXPECT_THAT(refused.err, HasSubstr("a server of its own"));

  // Each worker process opens its own.
  {
    const Serving workers(gpux, {"--models", list("cpu", "openvino"), "--isolation", "process"});
    const Json models = workers.ready().at("models");
    EXPECT_EQ(models.at(0).at("verdict").at("active"), Json::array({"cpu"}));
    EXPECT_EQ(models.at(1).at("verdict").at("active").at(0), "openvino");
    EXPECT_EQ(workers.json(post("/models/a/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
    EXPECT_EQ(workers.json(post("/models/b/predict", R"({"a": [1, 2, 3], "b": [4, 5, 6]})")),
              Json::parse(R"({"y": [4, 10, 18]})"));
  }

  // The other way round both run: OpenVINO's ONNX Runtime has a CPU provider.
  const Serving server(gpux, {"--models", list("openvino", "cpu")});
  EXPECT_THAT(server.log(), HasSubstr("ran on openvino"));
  EXPECT_EQ(server.json(post("/models/a/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_EQ(server.json(post("/models/b/predict", R"({"a": [1, 2, 3], "b": [4, 5, 6]})")),
            Json::parse(R"({"y": [4, 10, 18]})"));
}

TEST(ServedModels, AnswersCarryTheRequestsIdAndTrace) {
  const Program gpux;
  const Serving server(gpux, {model("add.onnx"), "--log-requests"});
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const Answered answer = server.ask(
      post("/predict", input, "X-Request-Id: mine-1\r\ntraceparent: 00-" + trace + "-00f067aa0ba902b7-01\r\n"));
  EXPECT_EQ(answer.header("x-request-id"), "mine-1");
  EXPECT_THAT(answer.header("traceparent"), testing::StartsWith("00-" + trace + "-"));
  EXPECT_THAT(answer.header("traceparent"), Not(HasSubstr("00f067aa0ba902b7")));
  EXPECT_TRUE(http::eventually([&] { return server.log().find("request=mine-1") != std::string::npos; }));
  EXPECT_THAT(server.log(), HasSubstr("path=/predict status=200"));
  const Answered other = server.ask(get("/health", "X-Request-Id: a b\r\ntraceparent: 00-0-0-0\r\n"));
  EXPECT_EQ(other.header("traceparent"), "");
  EXPECT_EQ(other.header("x-request-id").size(), 16U);
}

// They are listed all the same, as far as their records go.
TEST(Servers, AreListedWhereTheyDoNotAnswer) {
  const Program gpux;
  Serving one(gpux, {"one=" + model("add.onnx")});
  Serving other(gpux, {"other=" + model("scalar.onnx")});
  ASSERT_TRUE(stop_process(one.ready().at("pid").get<pid_t>()));
  const Outcome listed = gpux.run({"ps", "--json"});
  EXPECT_EQ(listed.code, 0);
  ASSERT_EQ(listed.json().size(), 2U);
  for (const Json& server : listed.json()) {
    EXPECT_EQ(server.at("answers"), server.at("models") == Json::parse(R"(["other"])")) << server;
  }
  const std::string pid = std::to_string(one.ready().at("pid").get<int>());
  EXPECT_THAT(listed.err, HasSubstr("server " + pid + " did not answer /metrics within 1 s"));
  EXPECT_THAT(gpux.run({"ps", "--table"}).out, HasSubstr("?"));
  one.signal(SIGCONT);
}

TEST(Servers, AreListedWatchedReadAndStopped) {
  const Program gpux;
  EXPECT_EQ(gpux.run({"ps", "--json"}).json(), Json::array());
  const Outcome started = gpux.run({"serve", "--detach", "adder=" + model("add.onnx"), "--port", "0", "--json"});
  ASSERT_EQ(started.code, 0) << started.err;
  const Json ready = started.json();
  const std::string pid = std::to_string(ready.at("pid").get<int>());
  Serving other(gpux, {"second=" + model("scalar.onnx")});

  const Json listed = gpux.run({"ps", "--json"}).json();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed.at(0).at("pid"), ready.at("pid"));
  EXPECT_EQ(listed.at(0).at("models"), Json::parse(R"(["adder"])"));
  EXPECT_THAT(gpux.run({"ps", "--table"}).out, HasSubstr(ready.at("address").get<std::string>()));

  RawClient(ready.at("port").get<std::uint16_t>()).ask(post("/predict", input));
  const Json statistics = gpux.run({"stats", pid, "--json"}).json();
  EXPECT_EQ(statistics.at("models").at(0).at("requests").at("succeeded"), 1);
  EXPECT_THAT(gpux.run({"top", "adder", "--table"}).out, HasSubstr("cpu"));
  EXPECT_THAT(gpux.run({"logs", "adder"}).out, HasSubstr("listening on"));
  EXPECT_EQ(gpux.run({"logs", pid, "-n", "1", "--json"}).json().size(), 1U);
  EXPECT_EQ(gpux.run({"health", "adder"}).out, "healthy\n");
  EXPECT_EQ(gpux.run({"health", pid, "--ready"}).out, "ready\n");
  EXPECT_EQ(gpux.run({"health", pid, "--json"}).json().at("models"), Json::parse(R"(["adder"])"));
  EXPECT_EQ(gpux.run({"health"}).code, 2);
  EXPECT_EQ(gpux.run({"stop"}).code, 2);
  EXPECT_EQ(gpux.run({"stop", "none"}).code, 7);

  const Outcome stopped = gpux.run({"stop", "adder", "--json"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(stopped.json().at(0).at("killed"), false);
  EXPECT_EQ(gpux.run({"ps", "--json"}).json().size(), 1U);
  EXPECT_EQ(gpux.run({"stop", "--all"}).code, 0);
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(fs::is_empty(gpux.home() / "servers"));
}

/// As long as it lives no file can grow: of processes started meanwhile, too.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }

  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Servers, NeedNoRoomOnTheDisk) {
  const Program gpux;
  std::optional<Serving> server;
  {
    const FullDisk full;
    server.emplace(gpux, std::vector<std::string>{model("add.onnx"), "--drain-delay", "1s"});
  }
  ASSERT_TRUE(server->ready().contains("warnings"));
  EXPECT_EQ(server->json(post("/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})"));
  server->signal(SIGTERM);
  EXPECT_TRUE(http::eventually([&] { return server->ask(get("/health/ready")).status == 503; }));
  EXPECT_EQ(server->json(post("/predict", input)), Json::parse(R"({"y": [[2, 4, 6]]})")) << "none is lost";
  EXPECT_EQ(server->json(get("/health")).at("status"), "stopping");
  EXPECT_EQ(server->wait(), 0);
}

TEST(Servers, WarnOfAHomeThatCannotBeUsed) {
  const Program gpux;
  gpux.folder().write("home", "a file");
  const Outcome started = gpux.run({"serve", "-d", model("add.onnx"), "--port", "0", "--no-grpc", "--json"});
  ASSERT_EQ(started.code, 0) << started.err;
  ::kill(started.json().at("pid").get<int>(), SIGTERM);
  EXPECT_THAT(started.json().at("warnings").dump(), HasSubstr("'gpux ps' will not know of this server"));
  const Outcome told = gpux.run({"serve", "-d", model("add.onnx"), "--port", "0", "--no-grpc"});
  ASSERT_EQ(told.code, 0) << told.err;
  ::kill(std::stoi(told.out), SIGTERM);
  EXPECT_THAT(told.err, HasSubstr("warning: 'gpux ps' will not know of this server"));
  EXPECT_THAT(told.err, HasSubstr("'kill "));
  EXPECT_THAT(told.err, testing::Not(HasSubstr("'gpux stop' stops it")));
}

TEST(Servers, SayInTheForegroundWhyTheyDidNotStart) {
  const Program gpux;
  const Outcome outcome = gpux.run({"serve", "-d", "none.onnx"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("none.onnx"));
  EXPECT_TRUE(fs::is_empty(gpux.home() / "servers")) << "it left its log";
}

TEST(Servers, SayWhichModelsOfARepositoryTheyDoNotServe) {
  const Program gpux;
  const fs::path repository = gpux.folder().path() / "repository";
  fs::create_directories(repository / "adder/1");
  gpux.folder().write("repository/adder/1/model.onnx", "no model");
  const Outcome started =
      gpux.run({"serve", "-d", "--repository", repository.string(), "--port", "0", "--no-grpc", "--json"});
  ASSERT_EQ(started.code, 0) << started.err;
  const std::string warnings = started.json().at("warnings").dump();
  EXPECT_THAT(warnings, HasSubstr("adder 1 is not served: "));
  EXPECT_THAT(warnings, HasSubstr("no model is served"));
  EXPECT_THAT(gpux.run({"logs"}).out, HasSubstr("adder 1")) << "the reason is in the log";
  const Outcome health = gpux.run({"health"});
  EXPECT_EQ(health.code, 5);
  EXPECT_EQ(health.out, "unhealthy\n  adder 1: could not be loaded\n");
  EXPECT_EQ(health.err, "");
  const Outcome ready = gpux.run({"health", "--ready"});
  EXPECT_EQ(ready.code, 5);
  EXPECT_EQ(ready.out, "not ready\n");
  EXPECT_EQ(gpux.run({"stop", "--all"}).code, 0);
}

TEST(Servers, LeaveTheirLogsWhereTheyAreKilled) {
  const Program gpux;
  std::string pid;
  {
    const Serving server(gpux, {"adder=" + model("add.onnx")});
    pid = std::to_string(server.ready().at("pid").get<int>());
  }
  EXPECT_EQ(gpux.run({"ps", "--json"}).json(), Json::array());
  EXPECT_EQ(gpux.run({"stop"}).code, 7);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"logs"}, {"logs", pid}, {"logs", "adder"}}) {
    const Outcome shown = gpux.run(words);
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("listening on"));
    EXPECT_THAT(shown.err, HasSubstr("server " + pid + " was killed"));
  }
  const fs::path record = gpux.home() / "servers" / (pid + ".json");
  ASSERT_TRUE(fs::exists(record));
  // After a week the next server removes them.
  fs::last_write_time(record, fs::file_time_type::clock::now() - std::chrono::hours(24 * 8));
  Serving next(gpux, {"adder=" + model("add.onnx")});
  EXPECT_FALSE(fs::exists(record));
  EXPECT_FALSE(fs::exists(gpux.home() / "servers" / (pid + ".log")));
  next.signal(SIGTERM);
  EXPECT_EQ(next.wait(), 0);
  EXPECT_TRUE(fs::is_empty(gpux.home() / "servers"));
}

}  // namespace
}  // namespace gpux::test
