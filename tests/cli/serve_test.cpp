// gpux serve as a user meets it: what it says, what it answers, how it ends.
#include <csignal>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "base/spelling.h"
#include "cli/serving.h"
#include "gpux/error.h"
#include "server/certificate.h"

namespace gpux::test {
namespace {

using http::Answered;
using http::get;
using http::post;
using testing::HasSubstr;

// As a browser sends a request of a page.
std::string of_page(const std::string& method, const std::string& path, const std::string& host,
                    const std::string& origin, const std::string& fields = {}, const std::string& body = {}) {
  return fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\n{}Content-Length: {}\r\n\r\n{}", method, path, host,
                     origin, fields, body.size(), body);
}

TEST(Serve, SaysWhichFlagIsTheProvider) {
  const Program gpux;
  const Outcome outcome = gpux.run({"serve", "-p", "decoder", model("add.onnx")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--port: 'decoder' is no port; the provider is --provider"));
  EXPECT_THAT(gpux.run({"serve", "-p", "65536", model("add.onnx")}).err, HasSubstr("not in range"));
}

TEST(Serve, PagesOfStrangersDriveNoServer) {
  const Program gpux;
  const std::string unload = "/v2/repository/models/add/unload", body = R"({"x": [[1, 2, 3]]})";
  const std::string preflight =
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n";
  const Serving server(gpux, {"add=" + model("add.onnx"), "--cors-origin", "https://app.example"});
  const std::string here = "127.0.0.1:" + std::to_string(server.port());

  // A page of a stranger, and one whose name leads to this machine.
  for (const auto& [host, origin] : {std::pair(here, "https://evil.example"), std::pair(here, "null"),
                                     std::pair(std::string("evil.example"), "http://evil.example")}) {
    SCOPED_TRACE(host + " " + origin);
    EXPECT_EQ(server.ask(of_page("POST", unload, host, origin, "Content-Type: text/plain\r\n")).status, 403);
    const Answered refused = server.ask(of_page("POST", "/predict", host, origin, "", body));
    EXPECT_EQ(refused.status, 403);
    EXPECT_EQ(refused.header("access-control-allow-origin"), "");
    EXPECT_EQ(server.ask(of_page("OPTIONS", "/predict", host, origin, preflight)).status, 403);
  }
  EXPECT_EQ(server.ask("GET /models HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);

  // Pages of this machine, and of the origin that the user names, do.
  for (const std::string origin : {"http://localhost:3000", "https://app.example"}) {
    const Answered asked = server.ask(of_page("OPTIONS", "/predict", here, origin, preflight));
    EXPECT_EQ(asked.status, 204);
    EXPECT_EQ(asked.header("access-control-allow-origin"), origin);
    EXPECT_EQ(asked.header("access-control-allow-methods"), "POST");
    EXPECT_EQ(asked.header("access-control-allow-headers"), "content-type");
    const Answered answered =
        server.ask(of_page("POST", "/predict", here, origin, "Content-Type: application/json\r\n", body));
    EXPECT_EQ(answered.status, 200) << answered.body;
    EXPECT_EQ(answered.header("access-control-allow-origin"), origin);
    // A page reads why it is refused, too.
    EXPECT_EQ(server.ask(of_page("POST", "/none", here, origin)).header("access-control-allow-origin"), origin);
  }
  const Answered options = server.ask("OPTIONS /predict HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("allow"), "POST");
  EXPECT_EQ(server.ask(post("/v2/models/add/infer", body, "Content-Type: text/html\r\n")).status, 400);
  EXPECT_EQ(server.ask(post(unload, "{}", "Content-Type: text/plain\r\n")).status, 415);

  const auto wrong = gpux.run({"serve", model("add.onnx"), "--cors-origin", "app.example"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--cors-origin 'app.example'"));
}

TEST(Serve, APageWithAKeyReadsAnswersOnlyWhereItsOriginIsAccepted) {
  const Program gpux;
  const std::string key = "a-key-of-a-page", body = R"({"x": [[1, 2, 3]]})";
  const Serving server(gpux, {"add=" + model("add.onnx"), "--cors-origin", "https://app.example"},
                       {{"GPUX_API_KEY", key}});
  const std::string bearer = "Authorization: Bearer " + key + "\r\n";
  const Answered app = server.ask(of_page("POST", "/predict", "models.example", "https://app.example", bearer, body));
  EXPECT_EQ(app.status, 200);
  EXPECT_EQ(app.header("access-control-allow-origin"), "https://app.example");
  const Answered other =
      server.ask(of_page("POST", "/predict", "models.example", "https://other.example", bearer, body));
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(other.header("access-control-allow-origin"), "");
  // A browser sends no key with the question whether it may send one.
  EXPECT_EQ(server.ask(of_page("OPTIONS", "/predict", "models.example", "https://app.example")).status, 204);
  const Answered none = server.ask(of_page("POST", "/predict", "models.example", "https://app.example", "", body));
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("access-control-allow-origin"), "https://app.example");
}

TEST(Serve, AnswersOnAllItsRoutesAndEndsWhenAsked) {
  const Program gpux;
  Serving server(gpux, {"adder=" + model("add.onnx"), "--host", "127.0.0.1"});
  EXPECT_EQ(server.ready().at("models").at(0).at("name"), "adder");
  EXPECT_THAT(server.log(), HasSubstr("ran on cpu (1 of 1 nodes)"));
  EXPECT_THAT(server.log(), HasSubstr("POST http://127.0.0.1:" + std::to_string(server.port()) + "/predict"));

  EXPECT_EQ(server.json(post("/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_EQ(server.json(post("/models/adder/predict", "[[1, 2, 3]]")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_EQ(server.json(post("/predict", R"([{"x": [[1, 2, 3]]}, {"x": [[0, 0, 0], [4, 5, 6]]}])")),
            Json::parse(R"([{"y": [[2, 4, 6]]}, {"y": [[1, 2, 3], [5, 7, 9]]}])"));
  EXPECT_EQ(server.json(post("/predict", "[]")), Json::array());

  const Json infer = server.json(post("/v2/models/adder/infer", R"({"id": "7", "inputs": [
      {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})"));
  EXPECT_EQ(infer.at("id"), "7");
  EXPECT_EQ(infer.at("model_name"), "adder");
  EXPECT_EQ(infer.at("outputs").at(0).at("data"), Json::parse("[2, 4, 6]"));

  EXPECT_EQ(server.json(get("/v2/models/adder")).at("inputs").at(0).at("shape"), Json::parse("[-1, 3]"));
  EXPECT_EQ(server.json(get("/v2/models/adder/versions/1.0.0/ready")).at("ready"), true);
  EXPECT_EQ(server.json(get("/health")).at("status"), "healthy");
  EXPECT_EQ(server.json(get("/health/ready")).at("ready"), true);
  EXPECT_EQ(server.json(get("/info")).at("inputs").at(0).at("type"), "float32");
  EXPECT_EQ(server.json(get("/v2/models/adder/stats"))
                .at("model_stats")
                .at(0)
                .at("inference_stats")
                .at("success")
                .at("count"),
            5);
  const std::int64_t last = server.json(get("/v2/models/adder/stats")).at("model_stats").at(0).at("last_inference");
  using Milliseconds = std::chrono::milliseconds;
  const auto now = std::chrono::duration_cast<Milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  EXPECT_LT(std::abs(last - now.count()), 60'000);
  EXPECT_THAT(server.ask(get("/metrics")).body,
              HasSubstr("nv_inference_request_success{model=\"adder\",version=\"1.0.0\"} 5\n"));

  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.log();
}

// Quick requests run on the thread that read them, long texts are read on another one; neither is seen from outside.
TEST(Serve, AnswersManyAlikeAndLongTexts) {
  const Program gpux;
  const Serving server(gpux, {"adder=" + model("add.onnx")});
  RawClient client(server.port());
  for (int i = 0; i < 50; ++i) {
    const std::string row = fmt::format("[{0}, {0}, {0}]", i);
    const Answered answer = client.ask(post("/predict", fmt::format(R"({{"x": [{}]}})", row)));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(Json::parse(answer.body), Json::parse(fmt::format(R"({{"y": [[{}, {}, {}]]}})", i + 1, i + 2, i + 3)));
  }

  std::string rows, sums;
  constexpr int count = 20'000;
  for (int i = 0; i < count; ++i) {
    rows += fmt::format("{}[{}, 0, -1]", i == 0 ? "" : ", ", i);
    sums += fmt::format("{}[{}, 2, 2]", i == 0 ? "" : ", ", i + 1);
  }
  EXPECT_EQ(server.json(post("/predict", fmt::format(R"({{"x": [{}]}})", rows))),
            Json::parse(fmt::format(R"({{"y": [{}]}})", sums)));
  const auto infer = [&](int said) {
    return post("/v2/models/adder/infer",
                fmt::format(R"({{"inputs": [{{"name": "x", "shape": [{}, 3], "datatype": "FP32",
        "data": [{}]}}]}})",
                            said, rows));
  };
  EXPECT_EQ(server.json(infer(count)).at("outputs").at(0).at("data").size(), std::size_t{3} * count);
  EXPECT_THAT(server.json(infer(count + 1), 400).at("error"), HasSubstr("20000 elements, not 20001"));
  EXPECT_THAT(server.json(post("/predict", fmt::format(R"({{"x": [{}, [1, 2]]}})", rows)), 400).at("detail"),
              HasSubstr("[20000]: 2 elements, not 3"));
  const Json counts = server.json(get("/v2/models/adder/stats")).at("model_stats").at(0).at("inference_stats");
  EXPECT_EQ(counts.at("success").at("count"), 52);
}

TEST(Serve, RefusesEachMistakeAndLivesOn) {
  const Program gpux;
  const Serving server(gpux, {"adder=" + model("add.onnx"), "scalar=" + model("scalar.onnx")});

  struct Mistake {
    std::string request;
    int status;
    const char* words;
  };

  for (const Mistake& mistake : std::vector<Mistake>{
           {get("/nothing"), 404, "no such route"},
           {get("/predict"), 405, "POST"},
           {post("/predict", "{}"), 400, "name one: adder, scalar"},
           {post("/models/none/predict", "{}"), 404, "models: adder, scalar"},
           {post("/models/adder/predict", ""), 400, "the end of the text found"},
           {post("/models/adder/predict", "{\"x\": "), 400, "JSON"},
           {post("/models/adder/predict", R"({"x": [[1, 2]]})"), 400, "2 elements, not 3"},
           {post("/models/adder/predict", R"({"x": [[1, 2, "a"]]})"), 400, "[0][2]"},
           {post("/models/adder/predict", R"({"q": 1})"), 400, "no input 'q'"},
           {post("/models/adder/predict", "{}"), 400, "x"},
           {post("/models/adder/predict", R"([{"x": [[1, 2, 3]]}, {"x": 1}])"), 400, "item 1"},
           {post("/models/adder/predict", std::string(100000, '[')), 400, "deeper"},
           {post("/models/adder/predict", R"({"x": [[1, 2, 3]]})", "X-Request-Timeout-Ms: soon\r\n"), 400,
            "X-Request-Timeout-Ms"},
           {post("/v2/models/none/infer", "{}"), 404, "no model 'none'"},
           {post("/v2/models/adder/versions/9/infer", "{}"), 404, "no version '9'"},
           {post("/v2/models/adder/infer", "{}"), 400, "no inputs"},
           {post("/v2/models/adder/infer", "abc", "Inference-Header-Content-Length: 9\r\n"), 400, "has 3 bytes"},
           {post("/v2/models/adder/infer", "abc", "Inference-Header-Content-Length: -1\r\n"), 400, "number of bytes"},
       }) {
    SCOPED_TRACE(mistake.request.substr(0, 200));
    const Answered answer = server.ask(mistake.request);
    EXPECT_EQ(answer.status, mistake.status);
    EXPECT_THAT(answer.body, HasSubstr(mistake.words));
    EXPECT_FALSE(Json::parse(answer.body, nullptr, false).is_discarded()) << answer.body;
  }
  EXPECT_EQ(server.json(post("/models/scalar/predict", "3")), Json::parse(R"({"y": -3})"));
}

struct KeyLine {
  std::string method, path;
  int without_key;  ///< the status
};

// Written by hand: a route whose flag changes, or that is new, is to be noticed here.
const std::vector<KeyLine> key_table{
    {"POST", "/predict", 401},
    {"POST", "/models/{name}/predict", 401},
    {"GET", "/", 200},
    {"GET", "/health", 200},
    {"GET", "/health/live", 200},
    {"GET", "/health/ready", 200},
    {"GET", "/models/{name}/health/ready", 200},
    {"GET", "/info", 401},
    {"GET", "/models/{name}/info", 401},
    {"GET", "/models", 401},
    {"GET", "/metrics", 200},
    {"GET", "/v2", 401},
    {"GET", "/v2/health/live", 200},
    {"GET", "/v2/health/ready", 200},
    {"GET", "/v2/models/stats", 401},
    {"GET", "/v2/models/{name}", 401},
    {"GET", "/v2/models/{name}/versions/{version}", 401},
    {"GET", "/v2/models/{name}/ready", 200},
    {"GET", "/v2/models/{name}/versions/{version}/ready", 200},
    {"POST", "/v2/models/{name}/infer", 401},
    {"POST", "/v2/models/{name}/versions/{version}/infer", 401},
    {"GET", "/v2/models/{name}/config", 401},
    {"GET", "/v2/models/{name}/versions/{version}/config", 401},
    {"GET", "/v2/models/{name}/stats", 401},
    {"GET", "/v2/models/{name}/versions/{version}/stats", 401},
    {"POST", "/v1/embeddings", 401},
    {"POST", "/embeddings", 401},
    {"GET", "/ping", 200},
    {"POST", "/v1/completions", 401},
    {"POST", "/v1/chat/completions", 401},
    {"POST", "/v1/responses", 401},
    {"POST", "/v1/responses/input_tokens", 401},
    {"GET", "/v1/responses/{id}", 401},
    {"DELETE", "/v1/responses/{id}", 401},
    {"GET", "/v1/responses/{id}/input_items", 401},
    {"POST", "/v1/messages", 401},
    {"POST", "/v1/messages/count_tokens", 401},
    {"POST", "/api/chat", 401},
    {"POST", "/api/generate", 401},
    {"POST", "/api/embed", 401},
    {"POST", "/api/embeddings", 401},
    {"GET", "/api/tags", 401},
    {"GET", "/api/ps", 401},
    {"POST", "/api/show", 401},
    {"POST", "/api/pull", 401},
    {"POST", "/api/push", 401},
    {"POST", "/api/create", 401},
    {"POST", "/api/copy", 401},
    {"DELETE", "/api/delete", 401},
    {"GET", "/api/blobs/{id}", 401},
    {"POST", "/api/blobs/{id}", 401},
    {"GET", "/api/version", 401},
    {"GET", "/v1/models", 401},
    {"GET", "/v1/models/{name}", 401},
    {"POST", "/", 401},
    {"POST", "/embed", 401},
    {"POST", "/models/{name}/embed", 401},
    {"POST", "/embed_all", 401},
    {"POST", "/models/{name}/embed_all", 401},
    {"POST", "/embed_sparse", 401},
    {"POST", "/models/{name}/embed_sparse", 401},
    {"POST", "/rerank", 401},
    {"POST", "/models/{name}/rerank", 401},
    {"POST", "/v1/rerank", 401},
    {"POST", "/v2/rerank", 401},
    {"POST", "/similarity", 401},
    {"POST", "/models/{name}/similarity", 401},
    {"POST", "/tokenize", 401},
    {"POST", "/detokenize", 401},
    {"POST", "/apply-template", 401},
    {"GET", "/props", 401},
    {"GET", "/slots", 401},
    {"POST", "/v1/models/{name}:predict", 401},
    {"POST", "/models/{name}/tokenize", 401},
    {"POST", "/decode", 401},
    {"POST", "/models/{name}/decode", 401},
    {"GET", "/openapi.json", 401},
    {"GET", "/docs", 401},
    {"GET", "/console", 200},
    {"GET", "/console/state", 401},
    {"GET", "/console/records", 401},
    {"GET", "/console/{id}", 404},
    {"GET", "/v2/systemsharedmemory/status", 401},
    {"GET", "/v2/systemsharedmemory/region/{id}/status", 401},
    {"POST", "/v2/systemsharedmemory/region/{id}/register", 401},
    {"POST", "/v2/systemsharedmemory/region/{id}/unregister", 401},
    {"POST", "/v2/systemsharedmemory/unregister", 401},
    {"POST", "/v2/repository/index", 401},
    {"POST", "/v2/repository/models/{name}/load", 401},
    {"POST", "/v2/repository/models/{name}/unload", 401},
};

TEST(Serve, EachRouteAsksForAKeyOrDoesNot) {
  const Program gpux;
  const auto keys = gpux.folder().write("keys", "first-key-123\n");
  const Serving server(gpux, {model("add.onnx"), "--api-key-file", keys.string()});
  std::set<std::string> listed, served;
  for (const server::Route& route : server::all_routes()) {
    served.insert(std::string(route.method) + " " + std::string(route.path));
  }
  for (const KeyLine& line : key_table) {
    listed.insert(line.method + " " + line.path);
    std::string path = line.path;
    if (const auto place = path.find("{name}"); place != std::string::npos) path.replace(place, 6, "add");
    if (const auto place = path.find("{version}"); place != std::string::npos) path.replace(place, 9, "1.0.0");
    SCOPED_TRACE(line.method + " " + path);
    const auto request = [&](const std::string& headers) {
      if (line.method == "DELETE") return "DELETE" + get(path, headers).substr(3);
      return line.method == "GET" ? get(path, headers) : post(path, "{}", headers);
    };
    EXPECT_EQ(server.ask(request("")).status, line.without_key);
    EXPECT_EQ(server.ask(request("X-API-Key: first-key-124\r\n")).status, line.without_key);
    // With its key unloading would end what the other rows need; it is the last.
    EXPECT_NE(server.ask(request("X-API-Key: first-key-123\r\n")).status, 401);
  }
  EXPECT_EQ(listed, served);
}

TEST(Serve, SaysWhereNoModelCan) {
  const Program gpux;
  const Serving server(gpux, {"one=" + model("add.onnx"), "two=" + model("add.onnx"), "--no-grpc"});
  EXPECT_EQ(server.json(get("/props"), 400).at("error").at("message"), "every model that is served generates no text");
  EXPECT_THAT(server.json(get("/props?model=one"), 400).at("error").at("message").get<std::string>(),
              HasSubstr("'one' generates no text"));
}

// Also POST / of a server whose models read no texts.
TEST(Serve, DocumentsTheMethodsOfEachPath) {
  const Program gpux;
  const Serving server(gpux, {model("add.onnx")});
  const Json paths = server.json(get("/openapi.json")).at("paths");
  EXPECT_GE(paths.size(), 20U);
  for (const auto& [path, methods] : paths.items()) {
    std::string documented;
    for (const char* method : {"get", "post", "delete"}) {
      if (methods.contains(method)) documented += (documented.empty() ? "" : ", ") + upper(method);
    }
    const Answered answered = server.ask("OPTIONS " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(answered.header("allow"), documented) << path;
  }
}

TEST(Serve, AcceptsLittleWithoutAKey) {
  const Program gpux;
  const auto keys = gpux.folder().write("keys", "first-key-123\n");
  const Serving server(gpux, {model("add.onnx"), "--api-key-file", keys.string()});
  const std::string key = "X-API-Key: first-key-123\r\n";
  const auto with_body = [](const std::string& path, const std::string& body, const std::string& headers) {
    std::string text = post(path, body, headers);
    return text.replace(0, 4, "GET");
  };
  EXPECT_EQ(server.ask(with_body("/health", std::string(4096, 'x'), "")).status, 200);
  EXPECT_EQ(server.ask(with_body("/health", std::string(4097, 'x'), "")).status, 413);
  EXPECT_EQ(server.ask(with_body("/info", std::string(4096, 'x'), key)).status, 200);
  EXPECT_EQ(server.ask(with_body("/info", std::string(4097, 'x'), key)).status, 413);
  EXPECT_EQ(server.ask(post("/predict", R"({"x": [[1, 2, 3]]})" + std::string(5000, ' '), key)).status, 200);
}

TEST(Serve, StartsNoOpenServerWhereAKeyWasMeant) {
  const Program gpux;
  for (const char* key : {"", " ", "\n", "#first-key-123", "short"}) {
    const Outcome outcome = gpux.run({"serve", model("add.onnx"), "--port", "0", "--no-grpc"},
                                     {.environment = {std::string("GPUX_API_KEY=") + key}});
    EXPECT_EQ(outcome.code, 2) << key;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("GPUX_API_KEY"));
  }
}

TEST(Serve, AsksForAKeyWhereItShould) {
  const Program gpux;
  const auto keys = gpux.folder().write("keys", "# two\nfirst-key-123\nsecond-key-456\n");
  const Serving server(gpux, {model("add.onnx"), "--api-key-file", keys.string()});
  const std::string request = R"({"x": [[1, 2, 3]]})";
  EXPECT_EQ(server.ask(get("/health")).status, 200);
  EXPECT_EQ(server.ask(get("/info")).status, 401);
  EXPECT_EQ(server.ask(post("/predict", request)).status, 401);
  EXPECT_EQ(server.ask(post("/predict", request, "Authorization: Bearer wrong-key-1234\r\n")).status, 401);
  EXPECT_EQ(server.ask(post("/predict", request, "Authorization: Bearer second-key-456\r\n")).status, 200);
  EXPECT_EQ(server.ask(post("/v2/models/add/infer", "{}", "X-API-Key: first-key-123\r\n")).status, 400);
}

TEST(Serve, SaysWhatIsWrongBeforeItListens) {
  const Program gpux;
  const Serving server(gpux, {model("add.onnx")});
  const std::string port = std::to_string(server.port());

  struct Line {
    std::vector<std::string> arguments;
    int code;
    std::string words;
  };

  for (const Line& line : std::vector<Line>{
           {{model("add.onnx"), "--port", port},
            10,
            "in use by process " + std::to_string(server.ready().at("pid").get<int>()) + " (gpux)"},
           {{model("add.onnx"), model("add.onnx")}, 2, "NAME="},
           {{model("add.onnx"), "--default", "b"}, 2, "--default b"},
           {{model("add.onnx"), "--tls-cert", "a.pem"}, 2, "--tls-key"},
           {{model("add.onnx"), "--drain-delay", "soon"}, 2, "--drain-delay"},
           {{model("add.onnx"), "--max-batch-size", "0"}, 2, "--max-batch-size"},
           {{model("add.onnx"), "--max-batch-cost", "0"}, 2, "--max-batch-cost"},
           {{model("add.onnx"), "--workers", "many"}, 2, "auto, devices"},
           {{model("add.onnx"), "--workers", "4", "--max-workers", "2"}, 2, "max_workers is 2"},
           {{model("add.onnx"), "--memory-budget", "much"}, 2, "--memory-budget"},
           {{model("add.onnx"), "--watch", "often"}, 2, "--watch"},
           {{model("add.onnx"), "--max-body", "1099511627776"}, 2, "--max-body is 1099511627776"},
           {{model("add.onnx"), "--max-body", "1024 GiB"}, 2, "--max-body is 1099511627776"},
           {{model("add.onnx"), "--max-body", "1 elephant"}, 2, "'1 elephant' is no size; accepted: a number of bytes"},
           {{"--models", "none.yml"}, 7, "none.yml"},
           {{"--repository", "none"}, 13, "none"},
           {{"none.onnx"}, 7, "none.onnx"},
       }) {
    std::vector<std::string> arguments = line.arguments;
    arguments.insert(arguments.begin(), "serve");
    const Outcome outcome = gpux.run(arguments);
    EXPECT_EQ(outcome.code, line.code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(line.words));
  }
}

// What it answers there: tests/server/grpc_test.cpp.
TEST(Serve, ListensForGrpcUnlessToldNotTo) {
  const Program gpux;
  Serving server(gpux, {model("add.onnx")});
  const std::uint16_t port = server.ready().at("grpc_port");
  EXPECT_THAT(server.log(), HasSubstr("gRPC 127.0.0.1:" + std::to_string(port)));
  {
    RawClient client(port);
    // The preface of HTTP/2 with empty settings; the answer begins with a frame of settings.
    client.send(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\x04\0\0\0\0\0", 9));
    const std::string frame = client.receive_some(9);
    ASSERT_EQ(frame.size(), 9U);
    EXPECT_EQ(frame[3], '\x04');
  }
  EXPECT_THAT(server.ask(get("/metrics")).body,
              HasSubstr("grpc_server_started_total{grpc_type=\"unary\",grpc_service=\"inference.GRPCInferenceService\","
                        "grpc_method=\"ModelInfer\"} 0\n"));
  const Outcome taken = gpux.run({"serve", model("add.onnx"), "--port", "0", "--grpc-port", std::to_string(port)});
  EXPECT_EQ(taken.code, 10) << taken.err;
  EXPECT_THAT(taken.err, HasSubstr("--grpc-port: port " + std::to_string(port)));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.log();

  const Serving without(gpux, {model("add.onnx"), "--no-grpc"});
  EXPECT_TRUE(without.ready().at("grpc_port").is_null());
  EXPECT_EQ(without.log().find("gRPC"), std::string::npos);
  EXPECT_EQ(without.ask(get("/metrics")).body.find("grpc"), std::string::npos);
  EXPECT_EQ(gpux.run({"serve", model("add.onnx"), "--no-grpc", "--grpc-port", "0"}).code, 2);
}

TEST(Serve, GoesWithoutGrpcWhereNobodyAskedForATakenPort) {
  const Program gpux;
  // Taken by this or by somebody else.
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(8081);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_GE(socket, 0);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    EXPECT_EQ(::listen(socket, 1), 0);
  }
  Serving server(gpux, {model("add.onnx"), "--no-grpc=false"});
  EXPECT_TRUE(server.ready().at("grpc_port").is_null());
  EXPECT_THAT(server.log(), HasSubstr("without gRPC: port 8081 of host 127.0.0.1 is in use"));
  EXPECT_EQ(server.json(post("/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  ::close(socket);
}

TEST(Serve, SpeaksTlsWithTheCertificateGiven) {
  const Program gpux;
  const auto file = [&](const char* name) { return (gpux.folder().path() / name).string(); };
  write_certificate("localhost", file("certificate.pem"), file("key.pem"));
  write_certificate("localhost", file("other.pem"), file("other.key"));
  Serving server(gpux,
                 {"add=" + model("add.onnx"), "--tls-cert", file("certificate.pem"), "--tls-key", file("key.pem")});
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(server.ready().at("address"), "https://127.0.0.1:" + port);
  EXPECT_THAT(server.log(), HasSubstr("POST https://127.0.0.1:" + port + "/predict"));

  const auto curl = [&](const char* trusted, const std::string& path, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{"curl",
                                     "--silent",
                                     "--show-error",
                                     "--noproxy",
                                     "*",
                                     "--resolve",
                                     "localhost:" + port + ":127.0.0.1",
                                     "--cacert",
                                     file(trusted),
                                     "https://localhost:" + port + path};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command, std::chrono::seconds(60), {});
  };
  const ProcessResult live = curl("certificate.pem", "/health/live");
  EXPECT_EQ(live.exit_code, 0) << live.standard_error;
  EXPECT_EQ(live.standard_output, R"({"live":true})");
  const ProcessResult predicted = curl("certificate.pem", "/predict", {"--data", R"({"x": [[1, 2, 3]]})"});
  EXPECT_EQ(Json::parse(predicted.standard_output, nullptr, false), Json::parse(R"({"y": [[2, 4, 6]]})"))
      << predicted.standard_error;
  constexpr int not_trusted = 60;
  EXPECT_EQ(curl("other.pem", "/health/live").exit_code, not_trusted);

  // Who speaks plainly is turned away, and nobody else minds.
  RawClient plain(server.port());
  EXPECT_EQ(plain.ask(get("/health/live")).status, 0);
  EXPECT_TRUE(plain.ended(std::chrono::seconds(30)));
  EXPECT_EQ(curl("certificate.pem", "/health/live").standard_output, R"({"live":true})");

  gpux.folder().write("text.pem", "this is no certificate\n");

  struct Line {
    const char *certificate, *key, *words;
  };

  for (const Line& line : {Line{"certificate.pem", "other.key", "other.key"}, Line{"other.pem", "key.pem", "key.pem"},
                           Line{"none.pem", "key.pem", "none.pem"}, Line{"certificate.pem", "none.key", "none.key"},
                           Line{"text.pem", "key.pem", "text.pem"}, Line{"certificate.pem", "text.pem", "text.pem"}}) {
    SCOPED_TRACE(std::string(line.certificate) + " " + line.key);
    const Outcome outcome = gpux.run({"serve", model("add.onnx"), "--port", "0", "--no-grpc", "--tls-cert",
                                      file(line.certificate), "--tls-key", file(line.key)});
    EXPECT_EQ(outcome.code, static_cast<int>(ErrorCode::invalid_config));
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(line.words));
    EXPECT_EQ(outcome.out, "");
  }
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.log();
}

// The lines of other tools' documents.
TEST(Serve, TakesDocumentedLines) {
  const Program gpux;
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "model-name"}).code, 0);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"model-name"},
           {"model-name", "--host", "127.0.0.1"},
           {"model-name", "-p", "0"},
           {"model-name", "--host", "0.0.0.0", "--workers", "4", "--provider", "cuda", "--no-verbose"}}) {
    Serving server(gpux, arguments);
    EXPECT_EQ(server.json(post("/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
    server.signal(SIGINT);
    EXPECT_EQ(server.wait(), 0);
  }
}

TEST(Serve, GoesOnWhereItsMessagesCannotBeWritten) {
  const Program gpux;
  std::filesystem::create_symlink("/dev/full", gpux.folder().path() / "serve.log");
  Serving server(gpux, {"adder=" + model("add.onnx"), "--log-requests"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(server.json(post("/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  }
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

}  // namespace
}  // namespace gpux::test
