// Who may send requests to `gpux serve`, how many, and what is put on record.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/eventually.h"
#include "base/files.h"
#include "base/process.h"
#include "base/spelling.h"
#include "cli/program.h"
#include "cli/serving.h"
#include "gpux/error.h"
#include "server/certificate.h"

namespace gpux::test {
namespace {

using http::get;
using http::post;
using testing::HasSubstr;
using testing::Not;

const std::string body = R"({"x": [[1, 2, 3]]})";
const std::string load = "/v2/repository/models/add/load", unload = "/v2/repository/models/add/unload";

std::string with(const std::string& key) {
  return "X-API-Key: " + key + "\r\n";
}

TEST(ServeAccess, KeysChangeWithoutARestart) {
  const Program gpux;
  const auto keys = gpux.folder().write("keys", "alice=first-key-123\n");
  const Serving server(gpux, {"add=" + model("add.onnx"), "--api-key-file", keys.string()});
  const auto status = [&](const char* key) { return server.ask(post("/predict", body, with(key))).status; };
  EXPECT_EQ(status("first-key-123"), 200);
  EXPECT_EQ(status("second-key-456"), 401);
  write_file_atomically(keys, "bob=second-key-456\n");
  EXPECT_TRUE(eventually([&] { return status("second-key-456") == 200; }));
  EXPECT_EQ(status("first-key-123"), 401);

  // What cannot be used changes nothing.
  write_file_atomically(keys, "short\n");
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(status("second-key-456"), 200);
    return server.log().find("keeping the last valid API keys and limits") != std::string::npos;
  }));
  EXPECT_THAT(server.ask(get("/metrics")).body, HasSubstr("gpux_key_reloads_total{result=\"failed\"} 1\n"));

  server.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] {
    return server.ask(get("/metrics")).body.find("gpux_key_reloads_total{result=\"failed\"} 2\n") != std::string::npos;
  }));
  EXPECT_EQ(status("second-key-456"), 200);
  for (const char* key : {"first-key-123", "second-key-456", "short"}) EXPECT_THAT(server.log(), Not(HasSubstr(key)));
  EXPECT_THAT(server.ask(get("/metrics")).body, HasSubstr("gpux_key_requests_total{key=\"bob\"}"));
}

TEST(ServeAccess, AdminKeysAloneChangeModels) {
  const Program gpux;
  const auto keys = gpux.folder().write("keys", "alice=first-key-123\n");
  const auto admins = gpux.folder().write("admins", "root=admin-key-123\n");
  const auto audit = gpux.folder().path() / "audit.jsonl";
  const Serving server(gpux, {"add=" + model("add.onnx"), "--api-key-file", keys.string(), "--admin-key-file",
                              admins.string(), "--audit-log", audit.string()});
  EXPECT_EQ(server.ask(post("/predict", body, with("first-key-123"))).status, 200);
  EXPECT_EQ(server.ask(post("/predict", body, with("admin-key-123"))).status, 200);
  EXPECT_EQ(server.ask(post(load, "{}")).status, 401);
  const Answered refused = server.ask(post(load, "{}", with("first-key-123")));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("an admin key is needed"));
  EXPECT_EQ(server.ask(post("/api/delete", "{}", with("first-key-123"))).status, 405);
  EXPECT_EQ(server.ask(post(load, "{}", with("admin-key-123") + "X-Request-Id: of-a-test\r\n")).status, 200);
  EXPECT_EQ(server.ask(post(unload, "{}", with("admin-key-123"))).status, 200);
  EXPECT_EQ(server.ask(post("/v2/repository/models/none/load", "{}", with("admin-key-123"))).status, 404);

  std::vector<Json> lines;
  for (const std::string& line : split(read_file(audit), '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].at("key"), "alice");
  EXPECT_EQ(lines[0].at("action"), "load");
  EXPECT_EQ(lines[0].at("result"), "refused");
  EXPECT_EQ(lines[1].at("key"), "root");
  EXPECT_EQ(lines[1].at("model"), "add");
  EXPECT_EQ(lines[1].at("address"), "127.0.0.1");
  EXPECT_EQ(lines[1].at("request"), "of-a-test");
  EXPECT_EQ(lines[1].at("result"), "succeeded");
  EXPECT_EQ(lines[1].at("digest").get<std::string>().size(), 64U);
  EXPECT_EQ(lines[2].at("action"), "unload");
  EXPECT_EQ(lines[3].at("result"), "failed");
  EXPECT_THAT(read_file(audit), Not(HasSubstr("-key-123")));

  // After it was rotated.
  std::filesystem::rename(audit, gpux.folder().path() / "audit.1");
  server.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(audit); }));
  EXPECT_EQ(server.ask(post(load, "{}", with("admin-key-123"))).status, 200);
  EXPECT_THAT(read_file(audit), HasSubstr(R"("action":"load")"));
}

TEST(ServeAccess, ChangesAreLinesOfTheLogWithoutAFile) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx")});
  EXPECT_EQ(server.ask(post(load, "{}")).status, 200);
  EXPECT_THAT(server.log(), HasSubstr("audit"));
  EXPECT_THAT(server.log(), HasSubstr("action=load"));
}

TEST(ServeAccess, HoldsKeysToTheirLimits) {
  const Program gpux;
  const auto keys = gpux.folder().write("keys", "alice=first-key-123\nbob=second-key-456\n");
  const auto limits =
      gpux.folder().write("limits.yml", "default: {requests_per_minute: 2}\nkeys: {bob: 100, eve: 1}\n");
  const Serving server(gpux,
                       {"add=" + model("add.onnx"), "--api-key-file", keys.string(), "--limits", limits.string()});
  EXPECT_THAT(server.log(), HasSubstr("no API key has the name 'eve'"));
  const auto ask = [&](const char* key) { return server.ask(post("/predict", body, with(key))); };
  EXPECT_EQ(ask("first-key-123").header("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(ask("first-key-123").status, 200);
  const Answered refused = ask("first-key-123");
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.header("retry-after"), "");
  EXPECT_EQ(ask("second-key-456").status, 200);
  EXPECT_EQ(server.ask(get("/info", with("first-key-123"))).status, 200);
  write_file_atomically(limits, "default: {requests_per_minute: 100000}\n");
  EXPECT_TRUE(eventually([&] { return ask("first-key-123").status == 200; }));

  const auto wrong = gpux.folder().write("wrong.yml", "default: {requests: 2}\n");
  const Outcome outcome = gpux.run({"serve", model("add.onnx"), "--port", "0", "--limits", wrong.string()});
  EXPECT_EQ(outcome.code, static_cast<int>(ErrorCode::invalid_config));
  EXPECT_THAT(outcome.err, HasSubstr("requests"));
}

TEST(ServeAccess, AnswersFromTheCache) {
  const Program gpux;
  const Serving server(gpux, {"add=" + model("add.onnx"), "--response-cache", "1MiB"});
  const auto ask = [&] {
    return server.ask(post("/v2/models/add/infer",
                           R"({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})"));
  };
  const Answered first = ask(), second = ask();
  EXPECT_EQ(first.header("x-gpux-cache"), "");
  EXPECT_EQ(second.header("x-gpux-cache"), "hit");
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(second.header("x-gpux-verdict"), first.header("x-gpux-verdict"));
}

TEST(ServeAccess, AsksForACertificateOfClients) {
  const Program gpux;
  const auto file = [&](const std::string& name) { return (gpux.folder().path() / name).string(); };
  write_certificate("authority", file("ca.pem"), file("ca.key"));
  write_certificate("robot", file("robot.pem"), file("robot.key"), file("ca.pem"), file("ca.key"));
  write_certificate("stranger", file("stranger.pem"), file("stranger.key"));
  write_certificate("localhost", file("server.pem"), file("server.key"));
  const auto limits = gpux.folder().write("limits.yml", "keys: {'cert:robot': {requests_per_minute: 1}}\n");
  const Serving server(gpux, {"add=" + model("add.onnx"), "--tls-cert", file("server.pem"), "--tls-key",
                              file("server.key"), "--tls-client-ca", file("ca.pem"), "--limits", limits.string()});
  const std::string port = std::to_string(server.port());
  const auto status = [&](const std::string& client) {
    std::vector<std::string> command{"curl",
                                     "--silent",
                                     "--noproxy",
                                     "*",
                                     "--resolve",
                                     "localhost:" + port + ":127.0.0.1",
                                     "--cacert",
                                     file("server.pem"),
                                     "--output",
                                     file("answer"),
                                     "--write-out",
                                     "%{http_code}",
                                     "--data",
                                     body,
                                     "https://localhost:" + port + "/predict"};
    if (!client.empty()) {
      command.insert(command.end(), {"--cert", file(client + ".pem"), "--key", file(client + ".key")});
    }
    return run_process(command, std::chrono::seconds(60), {}).standard_output;
  };
  EXPECT_EQ(status("robot"), "200");
  EXPECT_EQ(status("stranger"), "000");
  EXPECT_EQ(status(""), "000");
  // Its name is that of a key for limits.
  EXPECT_EQ(status("robot"), "429");
  EXPECT_THAT(read_file(file("answer")), HasSubstr("cert:robot"));

  const Outcome without = gpux.run({"serve", model("add.onnx"), "--tls-client-ca", file("ca.pem")});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--tls-cert"));
  const Outcome wrong =
      gpux.run({"serve", model("add.onnx"), "--port", "0", "--no-grpc", "--tls-cert", file("server.pem"), "--tls-key",
                file("server.key"), "--tls-client-ca", file("ca.key")});
  EXPECT_EQ(wrong.code, static_cast<int>(ErrorCode::invalid_config));
  EXPECT_THAT(wrong.err, HasSubstr("ca.key"));
}

}  // namespace
}  // namespace gpux::test
