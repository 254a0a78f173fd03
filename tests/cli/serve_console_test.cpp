// The console of gpux serve: who gets it, with which protection, and what it says of the server.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/chat_model.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

using http::Answered;
using http::get;
using http::post;
using testing::HasSubstr;
using testing::Not;

std::string get_with(const std::string& path, const std::string& fields, const std::string& host = "localhost") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", path, host, fields);
}

const std::vector<std::string>& files() {
  static const std::vector<std::string> all{"/console", "/console/index.html", "/console/console.css",
                                            "/console/console.js", "/console/chat.js"};
  return all;
}

TEST(ServeConsole, IsOnWhereItListensOnLoopback) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx")});
  EXPECT_THAT(server.log(), HasSubstr(fmt::format("console http://127.0.0.1:{}/console", server.port())));
  for (const std::string& file : files()) {
    SCOPED_TRACE(file);
    const Answered answer = server.ask(get(file));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.header("referrer-policy"), "no-referrer");
    EXPECT_EQ(answer.header("cache-control"), "no-cache");
    const std::string policy = answer.header("content-security-policy");
    for (const char* rule : {"default-src 'none'", "script-src 'self'", "style-src 'self'",
                             "img-src 'self' blob: data:", "connect-src 'self'", "frame-ancestors 'none'",
                             "base-uri 'none'", "form-action 'none'"}) {
      EXPECT_THAT(policy, HasSubstr(rule));
    }
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  }
  EXPECT_THAT(server.ask(get("/console")).header("content-type"), HasSubstr("text/html"));
  EXPECT_THAT(server.ask(get("/console/console.css")).header("content-type"), HasSubstr("text/css"));
  EXPECT_THAT(server.ask(get("/console/console.js")).header("content-type"), HasSubstr("text/javascript"));
  EXPECT_EQ(server.ask(get("/console/none.js")).status, 404);
  EXPECT_EQ(server.ask(get("/console/..%2Findex.html")).status, 400);
  const Answered moved = server.ask(get("/console/"));
  EXPECT_EQ(moved.status, 308);
  EXPECT_EQ(moved.header("location"), "../console");
  EXPECT_EQ(server.ask(post("/console", "{}")).status, 405);
}

TEST(ServeConsole, IsOffWhereOthersReachTheServerUnlessItIsAskedFor) {
  struct Line {
    std::vector<std::string> flags;
    int status;
  };

  for (const Line& line : std::vector<Line>{{{"--no-console"}, 404},
                                            {{"--host", "0.0.0.0"}, 404},
                                            {{"--host", "0.0.0.0", "--console"}, 200},
                                            {{"--host", "127.0.0.1", "--console"}, 200}}) {
    SCOPED_TRACE(testing::PrintToString(line.flags));
    const Program gpux;
    std::vector<std::string> arguments{"add=" + model("add.onnx")};
    arguments.insert(arguments.end(), line.flags.begin(), line.flags.end());
    const Serving server(gpux, arguments);
    for (const char* path : {"/console", "/console/console.js", "/console/state", "/console/records"}) {
      EXPECT_EQ(server.ask(get(path)).status, line.status) << path;
    }
    if (line.status != 404) continue;
    EXPECT_THAT(server.log(), Not(HasSubstr("/console")));
    EXPECT_THAT(server.ask(get("/console")).body, HasSubstr("gpux serve --console"));
  }
}

TEST(ServeConsole, ShowsNothingOfTheServerWithoutAKey) {
  const Program gpux;
  const std::string key = "a-key-of-the-console";
  const Serving server(gpux, {"add=" + model("add.onnx")}, {{"GPUX_API_KEY", key}});
  const std::string bearer = "Authorization: Bearer " + key + "\r\n";
  for (const std::string& file : files()) {
    const Answered answer = server.ask(get(file));
    EXPECT_EQ(answer.status, 200) << file;
    EXPECT_EQ(answer.header("set-cookie"), "");
  }
  for (const std::string path : {"/console/state", "/console/records"}) {
    EXPECT_EQ(server.ask(get(path)).status, 401) << path;
    EXPECT_EQ(server.ask(get_with(path, "Authorization: Bearer another-key\r\n")).status, 401) << path;
    EXPECT_EQ(server.ask(get_with(path, bearer)).status, 200) << path;
    EXPECT_EQ(server.ask(get_with(path, "X-API-Key: " + key + "\r\n")).status, 200) << path;
    // A cookie is no key.
    EXPECT_EQ(server.ask(get_with(path, "Cookie: gpux-api-key=" + key + "\r\n")).status, 401) << path;
    // Nor does a key help a page of another origin.
    EXPECT_EQ(server.ask(get_with(path, bearer + "Origin: https://evil.example\r\n")).status, 403) << path;
  }
}

TEST(ServeConsole, IsNotForPagesOfOtherOrigins) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx"), "--cors-origin", "https://page.example"});
  const std::string here = fmt::format("127.0.0.1:{}", server.port());
  for (const std::string path : {"/console", "/console/console.js", "/console/state", "/console/records"}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(server.ask(get_with(path, "Origin: http://" + here + "\r\n", here)).status, 200);
    for (const char* origin : {"https://evil.example", "null", "http://localhost:3000", "https://page.example"}) {
      const Answered answer = server.ask(get_with(path, fmt::format("Origin: {}\r\n", origin), here));
      EXPECT_EQ(answer.status, 403) << origin;
      EXPECT_EQ(answer.header("access-control-allow-origin"), "") << origin;
    }
    // Its name was changed to this machine's address.
    EXPECT_EQ(server.ask(get_with(path, "", "evil.example")).status, 403);
  }
}

TEST(ServeConsole, IsForThisMachineAloneWhereNothingElseIsSaid) {
  struct Line {
    std::vector<std::string> flags;
    const char *fields, *host;
    int status;
  };

  for (const Line& line : std::vector<Line>{
           {{}, "X-Forwarded-For: 203.0.113.7\r\n", "localhost", 403},
           {{}, "Forwarded: for=203.0.113.7\r\n", "localhost", 403},
           {{}, "Via: 1.1 proxy\r\n", "localhost", 403},
           {{"--console"}, "X-Forwarded-For: 203.0.113.7\r\n", "localhost", 200},
           {{"--host", "0.0.0.0", "--console"}, "", "localhost", 200},
           // Its name was changed to this machine's address: no Origin, as the page is of the server's origin.
           {{"--host", "0.0.0.0", "--console"}, "", "evil.example", 403},
           {{"--host", "0.0.0.0", "--console", "--allowed-host", "models.example"}, "", "models.example", 200},
       }) {
    SCOPED_TRACE(testing::PrintToString(line.flags) + line.fields + line.host);
    const Program gpux;
    std::vector<std::string> arguments{"add=" + model("add.onnx")};
    arguments.insert(arguments.end(), line.flags.begin(), line.flags.end());
    const Serving server(gpux, arguments);
    for (const char* path : {"/console/state", "/console/records"}) {
      EXPECT_EQ(server.ask(get_with(path, line.fields, line.host)).status, line.status) << path;
    }
    EXPECT_EQ(server.ask(get_with("/console", line.fields, line.host)).status, 200);
    // Nor are those refusals among the failures.
    EXPECT_EQ(server.json(get("/console/records")).at("failures"), Json::array());
  }
}

TEST(ServeConsole, DoesNotFillTheLogWithItsOwnRequests) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx"), "--log-requests"});
  for (int i = 0; i < 3; ++i) (void)server.json(get("/console/state"));
  (void)server.json(post("/predict", R"({"x": [[1, 2, 3]]})"));
  std::string log;
  const Json records = server.json(get("/console/records"));
  for (const Json& line : records.at("log")) log += line.at("text").get<std::string>() + "\n";
  EXPECT_THAT(log, HasSubstr("path=/predict"));
  EXPECT_THAT(log, Not(HasSubstr("path=/console")));
}

TEST(ServeConsole, SaysHowTheModelsAre) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx"), "other=" + model("add.onnx"), "--default", "add"});
  for (int i = 0; i < 3; ++i) (void)server.json(post("/predict", R"({"x": [[1, 2, 3], [4, 5, 6]]})"));
  (void)server.json(post("/predict", R"({"x": "no"})"), 400);
  (void)server.json(post("/v2/repository/models/other/unload", "{}"));

  const Json state = server.json(get("/console/state"));
  EXPECT_EQ(state.at("server").at("serves_store"), false);
  EXPECT_THAT(state.at("server").at("providers"), testing::Contains(Json{{"id", "cpu"}, {"kind", "cpu"}}));
  EXPECT_EQ(state.at("server").at("is_ready"), true);
  EXPECT_GT(state.at("server").at("resident_bytes"), 0);
  ASSERT_EQ(state.at("models").size(), 2U);
  const Json& add = state.at("models").at(0);
  EXPECT_EQ(add.at("name"), "add");
  EXPECT_EQ(add.at("state"), "ready");
  EXPECT_THAT(add.at("verdict").get<std::string>(), HasSubstr("ran on cpu (1 of 1 nodes)"));
  EXPECT_EQ(add.at("providers"), Json::array({"cpu"}));
  bool is_tried = false;
  for (const Json& one : add.at("tried"))
    is_tried = is_tried || (one.at("provider") == "cpu" && one.at("outcome") == "active");
  EXPECT_TRUE(is_tried) << add.at("tried");
  EXPECT_EQ(add.at("requests").at("succeeded"), 3);
  EXPECT_EQ(add.at("requests").at("invalid"), 1);
  EXPECT_EQ(add.at("rows"), 6);
  EXPECT_EQ(add.at("batches"), Json::parse("[[2, 3]]"));
  EXPECT_EQ(add.at("durations").at("total").size(), state.at("bounds").size() + 1);
  int counted = 0;
  for (const Json& count : add.at("durations").at("total")) counted += count.get<int>();
  EXPECT_EQ(counted, 3);
  EXPECT_EQ(add.at("waiting"), 0);
  EXPECT_GT(add.at("memory_bytes"), 0);
  EXPECT_EQ(add.at("devices").at(0).at("state"), "in_service");
  EXPECT_EQ(add.at("takes_images"), false);
  const Json& other = state.at("models").at(1);
  EXPECT_EQ(other.at("state"), "unloaded");
  EXPECT_EQ(other.at("memory_bytes"), 0);
  EXPECT_FALSE(other.contains("waiting"));
}

TEST(ServeConsole, KeepsTheRequestsThatFailedAndTheLog) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx")});
  EXPECT_EQ(server.json(get("/console/records")).at("failures"), Json::array());
  (void)server.json(post("/predict", R"({"x": [[1, 2, 3]]})"));
  for (int i = 0; i < 3; ++i)
    (void)server.json(post("/predict?a=b", R"({"x": "no"})", "X-Request-Id: id-of-it\r\n"), 400);
  EXPECT_EQ(
      server.ask(post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}], "model": "none"})"))
          .status,
      404);
  // Probes fail again and again while something is not ready.
  EXPECT_EQ(server.ask(get("/v2/models/none/ready")).status, 404);

  const Json records = server.json(get("/console/records"));
  const Json& failures = records.at("failures");
  ASSERT_EQ(failures.size(), 2U) << failures;
  EXPECT_EQ(failures.at(0).at("path"), "/predict");
  EXPECT_EQ(failures.at(0).at("status"), "400");
  EXPECT_EQ(failures.at(0).at("count"), 3);
  EXPECT_EQ(failures.at(0).at("id"), "id-of-it");
  EXPECT_THAT(failures.at(0).at("reason").get<std::string>(), HasSubstr("x"));
  EXPECT_EQ(failures.at(1).at("path"), "/v1/chat/completions");
  EXPECT_THAT(failures.at(1).at("reason").get<std::string>(), HasSubstr("none"));
  std::string log;
  for (const Json& line : records.at("log")) log += line.at("text").get<std::string>() + "\n";
  EXPECT_THAT(log, HasSubstr("ran on cpu (1 of 1 nodes)"));
  EXPECT_THAT(log, HasSubstr("listening on http://127.0.0.1:"));
  EXPECT_THAT(log, Not(HasSubstr(GPUX_SOURCE_DIR)));
}

// Such an answer has the status of a success.
TEST(ServeConsole, KeepsTextsThatFailInTheMiddle) {
  const Program gpux;
  store_chat_model(gpux, "chatty", plain_template);
  const Serving server(gpux, {"chatty"});
  const Json body{{"messages", Json::array({{{"role", "user"}, {"content", "a"}}})},
                  {"guided_regex", "[ab]{1000}"},
                  {"max_tokens", 500},
                  {"n", 64},
                  {"stream", true}};
  const Answered answer = server.ask(post("/v1/chat/completions", body.dump(), "X-Request-Timeout-Ms: 400\r\n"));
  EXPECT_THAT(answer.body, HasSubstr("not finished in time"));
  const Json failures = server.json(get("/console/records")).at("failures");
  ASSERT_EQ(failures.size(), 1U) << failures;
  EXPECT_EQ(failures.at(0).at("status"), answer.status == 200 ? "504 in a stream" : "504");
  EXPECT_THAT(failures.at(0).at("reason").get<std::string>(), HasSubstr("not finished in time"));
}

TEST(ServeConsole, IsInTheOpenApiDocument) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx")});
  const Json paths = server.json(get("/openapi.json")).at("paths");
  for (const char* path : {"/console", "/console/state", "/console/records", "/console/{id}"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

}  // namespace
}  // namespace gpux::test
