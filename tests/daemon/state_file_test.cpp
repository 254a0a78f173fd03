#include "daemon/state_file.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(StateFile, IsReadWhole) {
  const StateFile state = parse_state_file(
      "{\n\t\"output\": \"out\",\n\t\"level\": \"high\",\n\t\"model_dir\": \"/models\",\n\t\"provider\": "
      "\"cuda,cpu\",\n"
      "\t\"device\": 1,\n\t\"workers\": 3,\n\t\"rescan\": \"5s\",\n"
      "\t\"downgrade\": {\"level\": \"low\", \"above\": 1000},\n"
      "\t\"limits\": {\"event_bytes\": \"64KiB\", \"event_depth\": 8, \"journal_bytes\": 1000, \"connections\": 2},\n"
      "\t\"sources\": [\n"
      "\t\t{\"name\": \"a\", \"directory\": \"events\"}, {\"name\": \"b\", \"file\": \"/var/log/b.jsonl\"},\n"
      "\t\t{\"name\": \"c\", \"socket\": \"c.sock\"},\n"
      "\t\t{\"name\": \"d\", \"match\": [\"type='signal',interface='a.b'\"], \"bus\": \"unix:path=/x\"}\n\t]\n}\n",
      "/etc/gpux/state.json");
  EXPECT_EQ(state.output, "/etc/gpux/out");
  EXPECT_EQ(state.level, "high");
  EXPECT_EQ(state.model_dir, "/models");
  EXPECT_EQ(state.provider, "cuda,cpu");
  EXPECT_EQ(state.device, 1U);
  EXPECT_EQ(state.workers, 3U);
  EXPECT_EQ(state.rescan, 5s);
  EXPECT_EQ(state.downgrade, (Downgrade{.level = "low", .above = 1000, .below = 100}));
  EXPECT_EQ(state.limits,
            (EventLimits{.event_bytes = 65536, .event_depth = 8, .journal_bytes = 1000, .connections = 2}));
  using Kind = DeclaredSource::Kind;
  EXPECT_THAT(state.sources,
              testing::ElementsAre(
                  DeclaredSource{.name = "a", .kind = Kind::directory, .path = "/etc/gpux/events", .match = {}},
                  DeclaredSource{.name = "b", .kind = Kind::file, .path = "/var/log/b.jsonl", .match = {}},
                  DeclaredSource{.name = "c", .kind = Kind::socket, .path = "/etc/gpux/c.sock", .match = {}},
                  DeclaredSource{.name = "d",
                                 .kind = Kind::bus,
                                 .path = {},
                                 .match = {"type='signal',interface='a.b'"},
                                 .bus = "unix:path=/x"}));
}

TEST(StateFile, HasDefaultsAndAShortForm) {
  const StateFile state = parse_state_file(R"({"output": "/o", "sources": {"events": "/e"}})", "state.json");
  EXPECT_EQ(state.level, "");
  EXPECT_EQ(state.model, "");
  EXPECT_EQ(state.limits, EventLimits{});
  ASSERT_EQ(state.sources.size(), 1U);
  EXPECT_EQ(state.sources[0].name, "events");
  EXPECT_EQ(state.sources[0].path, "/e");
  EXPECT_EQ(parse_state_file(R"({"output": "/o", "features": "heuristic", "sources": {"e": "/e"}})", "s").features,
            "heuristic");
  EXPECT_EQ(parse_state_file(R"({"output": "/o", "level": "none", "sources": {"e": "/e"}})", "s").level, "");
}

TEST(StateFile, TakesAModelsFolderRelativeToItself) {
  const test::TemporaryFolder folder;
  folder.write("here/model.onnx", "");
  const auto model = [&](const std::string& name) {
    return parse_state_file(R"({"output": "o", "model": ")" + name + R"(", "sources": {"e": "e"}})",
                            folder.path() / "state.json")
        .model;
  };
  EXPECT_EQ(model("here"), (folder.path() / "here").string());
  EXPECT_EQ(model("stored:1"), "stored:1");
}

TEST(StateFile, SaysWhatIsWrongAndWhere) {
  struct {
    std::string text;
    const char* message;
  } const cases[]{
      {"", "s.json:1:1: the file is empty"},
      {"{", "s.json:1:"},
      {R"({"output": "/o"})", "'sources' is missing"},
      {R"({"sources": {"e": "/e"}})", "'output' is missing"},
      {"{\"output\": \"/o\",\n \"sources\": {}}", "2:13: 'sources' is empty"},
      {"{\"output\": \"/o\",\n \"source\": {}}", "2:2: unknown key 'source'; did you mean 'sources'?"},
      {R"({"output": "", "sources": {"e": "/e"}})", "'output' is empty"},
      {R"({"output": "/o", "level": "highest", "sources": {"e": "/e"}})",
       "'level' is 'highest'; none, low, medium, high are accepted"},
      {R"({"output": "/o", "level": "low", "features": "heuristic", "sources": {"e": "/e"}})",
       "'features' requires level none, and 'level' is given"},
      {R"({"output": "/o", "features": "all", "sources": {"e": "/e"}})", "none, heuristic are accepted"},
      {R"({"output": "/o", "level": "low", "model": "m", "sources": {"e": "/e"}})", "one is accepted"},
      {R"({"output": "/o", "workers": 0, "sources": {"e": "/e"}})", "'workers' is '0'"},
      {R"({"output": "/o", "limits": {"event_bytes": "much"}, "sources": {"e": "/e"}})",
       "'limits.event_bytes' is 'much'"},
      {R"({"output": "/o", "downgrade": {"level": "low", "above": 5, "below": 5}, "sources": {"e": "/e"}})",
       "'downgrade.below' is 5"},
      {R"({"output": "/o", "level": "low", "downgrade": {"level": "low", "above": 5}, "sources": {"e": "/e"}})",
       "not less than 'level'"},
      {R"({"output": "/o", "model": "m", "downgrade": {"level": "low", "above": 5}, "sources": {"e": "/e"}})",
       "'downgrade' requires 'level'"},
      {R"({"output": "/o", "sources": {"a/b": "/e"}})", "the source's name 'a/b' is not accepted"},
      {R"({"output": "/o", "sources": [{"name": "a", "file": "f"}, {"name": "a", "file": "g"}]})", "two sources 'a'"},
      {R"({"output": "/o", "sources": [{"name": "a"}]})", "source 'a' has 0 of directory, file, socket and match"},
      {R"({"output": "/o", "sources": [{"name": "a", "file": "f", "socket": "g"}]})", "has 2 of directory"},
      {R"({"output": "/o", "sources": [{"name": "a", "file": "f", "bus": "session"}]})", "'bus' is given without"},
      {R"({"output": "/o", "sources": [{"name": "a", "match": ["x"], "bus": "mine"}]})", "'bus' is 'mine'"},
      {R"({"output": "/o", "sources": [{"name": "a", "match": []}]})", "'match' is empty"},
      {R"({"output": "/o", "sources": [{"name": "a", "socket": "/)" + std::string(120, 's') + R"("}]})",
       "the path of a socket has 121 bytes; at most 107"},
      {R"({"output": "/o", "sources": {"e": "${GPUX_NO_SUCH_VARIABLE}"}})", "GPUX_NO_SUCH_VARIABLE"},
  };

  for (const auto& one : cases) {
    SCOPED_TRACE(one.text);
    try {
      (void)parse_state_file(one.text, "s.json");
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr(one.message));
    }
  }
}

TEST(StateFile, OfOpDbusIsRefusedByName) {
  try {
    (void)parse_state_file(R"({"version": 1, "plugins": {"net": {"interfaces": []}}})", "/etc/op-dbus/state.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(),
                testing::AllOf(HasSubstr("'/etc/op-dbus/state.json'"), HasSubstr("of op-dbus itself")));
  }
}

TEST(StateFile, HasAPublishedSchema) {
  const std::string published = test::content_of(GPUX_SOURCE_DIR "/docs/daemon.schema.json");
  EXPECT_TRUE(published == json_schema(state_schema()))
      << "write what 'gpux schema --daemon' prints into docs/daemon.schema.json";
  const auto schema = nlohmann::json::parse(published);
  const std::string page = test::content_of(GPUX_SOURCE_DIR "/docs/daemon.md");
  std::size_t keys = 0;
  for (const SchemaKey& key : state_schema().keys) {
    EXPECT_TRUE(schema.at("properties").contains(std::string(key.name))) << key.name;
    for (const SchemaKey& inner : key.keys) {
      EXPECT_THAT(page, HasSubstr("`" + std::string(inner.name))) << key.name;
    }
    EXPECT_THAT(page, HasSubstr("`" + std::string(key.name)));
    ++keys;
  }
  EXPECT_GE(keys, 10U);
}

}  // namespace
}  // namespace gpux::daemon
