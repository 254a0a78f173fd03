#include "daemon/event_text.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "daemon/vector_folder.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using testing::HasSubstr;

TEST(EventText, IsWhatTheDocumentSays) {
  struct {
    const char* json;
    const char* text;
  } const cases[]{
      {R"({"plugin": "net", "operation": "update", "data": {"mtu": 1500, "dev": "eth0"}, "metadata": {"user": "root"}})",
       "plugin: net\noperation: update\ndev: eth0\nmtu: 1500\nmeta.user: root"},
      // whatever order they come in
      {R"({"metadata": {"b": 1, "a": 2}, "data": {"z": 1, "a": {"y": 1, "x": [1, 2.5, null]}}, "operation": "o",
           "plugin": "p"})",
       "plugin: p\noperation: o\na: {\"x\":[1,2.5,null],\"y\":1}\nz: 1\nmeta.a: 2\nmeta.b: 1"},
      // as op-dbus writes its own
      {R"({"plugin_id": "dns", "operation": "apply", "timestamp": 17, "data": "text"})",
       "plugin: dns\noperation: apply\ndata: text"},
      {R"({"category": "dns", "action": "apply", "timestamp": 17, "hash": "0a", "data": {"metadata": {}}})",
       "plugin: dns\noperation: apply\nmetadata: {}"},
      // "plugin" counts first, and what is not used then is one of the others
      {R"({"plugin": "p", "category": "c"})", "plugin: p\ncategory: c"},
      {R"({"level": "info", "message": "it runs", "ok": true})", "level: info\nmessage: it runs\nok: true"},
      {R"({"id": 7, "timestamp": "now", "message": "m"})", "message: m"},
      {R"({"plugin": "p", "data": [1, "a"]})", "plugin: p\ndata: [1,\"a\"]"},
      {R"({"plugin": "p", "data": {}})", "plugin: p"},
      {R"({"plugin": 3, "metadata": "free"})", "plugin: 3\nmeta: free"},
      {R"({"plugin": null, "plugin_id": "q", "data": {"n": null}})", "plugin: q\nn: null"},
      {R"(["a", 1])", "data: [\"a\",1]"},
      {R"("a \u00e9 \ud83d\ude00")", "data: a \u00e9 \U0001F600"},
      {R"({"data": {"line": "one\ntwo"}})", "line: one\ntwo"},
      {"  {\"data\": 5}\r\n", "data: 5"},
  };

  for (const auto& one : cases) EXPECT_EQ(read_event(one.json, {}).text, one.text) << one.json;
}

TEST(EventText, SaysWhyItIsNone) {
  std::string deep(70, '[');
  deep += std::string(70, ']');

  struct {
    std::string json;
    const char* reason;
  } const cases[]{
      {"", "not JSON at byte"},
      {"{\"a\": 1", "not JSON at byte"},
      {"{\"a\": 1} x", "not JSON at byte"},
      {"{\"a\": NaN}", "not JSON at byte"},
      {"\"\xff\"", "not UTF-8 at byte offset 1 (0xff); accepted: UTF-8"},
      {"{\"a\": \"caf\xe9\"}", "not UTF-8 at byte offset 10 (0xe9)"},
      {std::string("\xff\xfe{\0}\0", 6), "UTF-16 (little-endian) by its byte order mark"},
      {"{\"a\": 1e999}", "a number that no float64 holds"},
      {deep, "nested deeper than 64 levels, the limit 'event_depth'"},
      {"{}", "nothing to embed"},
      {"null", "nothing to embed"},
      {R"({"id": 3, "timestamp": 5, "metadata": {}})", "nothing to embed"},
  };

  for (const auto& one : cases) {
    try {
      (void)read_event(one.json, {});
      ADD_FAILURE() << one.json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.message(), HasSubstr(one.reason)) << one.json;
    }
  }
  EXPECT_NO_THROW((void)read_event(std::string(64, '[') + std::string(64, ']'), {}));
  EXPECT_NO_THROW((void)read_event(deep, {.event_depth = 70}));
}

TEST(EventText, NamesAnEventForEver) {
  const auto hash = [](const char* source, const char* position, const char* json) {
    return event_hash(source, position, read_event(json, {}));
  };
  const std::set<std::string> all{
      hash("s", "1:0", R"({"data": 1})"),
      hash("t", "1:0", R"({"data": 1})"),
      hash("s", "1:10", R"({"data": 1})"),
      hash("s", "1:0", R"({"data": 2})"),
      hash("s", "1:0", R"({"data": 1, "id": 1})"),
      hash("s", "1:0", R"({"data": 1, "id": "1"})"),
      // what stands before and behind a border is not the same
      hash("s1", ":0", R"({"data": 1})"),
      refusal_hash("s", "1:0", "data: 1"),
  };
  EXPECT_EQ(all.size(), 8U);
  // Its own id counts instead of the place.
  EXPECT_EQ(hash("s", "1:0", R"({"data": 1, "id": "x"})"), hash("s", "7:99", R"({"id": "x", "data": 1})"));
  // It is the name of files: it may never be another.
  EXPECT_EQ(hash("s", "1:0", R"({"data": 1})"), "806ad75c713f651d5311922113f2d485b47e3507ef8074c71756450a49220e45");
}

TEST(EventText, BecomesDocumentsAsOpDbusWritesThem) {
  EmbeddedEvent event;
  event.source = "events";
  event.position = "a.json";
  event.event = read_event(
      R"({"plugin_id": "net", "operation": "update", "timestamp": 12, "data": {"q": "\"x\""}, "metadata": {"u": 1}})",
      {});
  event.hash = event_hash(event.source, event.position, event.event);
  event.vector = {0.5F, -1};
  event.model = "m";
  event.digest = "0a";
  event.level = "low";
  event.provider = "cpu";
  event.taken = event.embedded = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'500));
  event.embed_ms = 0.25;
  using Json = nlohmann::json;
  const Json vec = Json::parse(vec_document(event));
  EXPECT_EQ(vec.at("hash"), event.hash);
  EXPECT_EQ(vec.at("vector"), Json({0.5, -1}));
  EXPECT_EQ(vec.at("metadata"), Json({{"model", "m"},
                                      {"digest", "sha256:0a"},
                                      {"dimension", 2},
                                      {"level", "low"},
                                      {"source", "events"},
                                      {"position", "a.json"},
                                      {"category", "net"},
                                      {"action", "update"},
                                      {"plugin_id", "net"},
                                      {"timestamp", 12},
                                      {"data_hash", event.event.data_hash},
                                      {"text", "plugin: net\noperation: update\nq: \"x\"\nmeta.u: 1"}}));
  const Json timing = Json::parse(timing_document(event));
  EXPECT_EQ(timing.at("timestamp"), 12);
  EXPECT_EQ(timing.at("category"), "net");
  EXPECT_EQ(timing.at("data").at("metadata"), Json({{"u", 1}}));
  EXPECT_EQ(timing.at("embedded_at"), "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(timing.at("provider"), "cpu");
  EXPECT_TRUE(timing.at("id").is_null());
  const Json refusal = Json::parse(refusal_document(
      {.hash = "h", .source = "s", .position = "1:0", .reason = "not JSON", .content = "\xff{", .taken = event.taken}));
  EXPECT_EQ(refusal.at("reason"), "not JSON");
  EXPECT_EQ(refusal.at("content"), "\uFFFD{");
}

}  // namespace
}  // namespace gpux::daemon
