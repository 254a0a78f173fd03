#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "server/store_changes/model_creation.h"
#include "store/incoming.h"

namespace gpux::server {
namespace {

using testing::HasSubstr;

TEST(StoreCreation, ChangesSettings) {
  EXPECT_EQ(changed_settings(R"({"top_p": 0.5, "eos_token_id": 2})", {{"temperature", 0}, {"top_p", 0.7}}),
            "{\n  \"top_p\": 0.7,\n  \"eos_token_id\": 2,\n  \"temperature\": 0,\n  \"do_sample\": false\n}\n");
}

// They may be a stranger's: nesting must not overflow the stack.
TEST(StoreCreation, RefusesSettingsThatAreNoObject) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& text :
       {std::string("[]"), std::string("1"), std::string("{"), deep, "{\"a\":" + deep + "}"}) {
    try {
      (void)changed_settings(text, {{"top_k", 1}});
      ADD_FAILURE() << text.substr(0, 20);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      EXPECT_THAT(error.message(), HasSubstr("generation_config.json"));
    }
  }
}

// A package from a registry with a rule, and without a signature: nothing is made of it that would run.
TEST(StoreCreation, KeepsToTheTrustPolicy) {
  namespace fs = std::filesystem;
  const test::TemporaryFolder home;
  const fs::path settings = home.write("generation_config.json", "{}");
  home.write("key.pem", "-----BEGIN PUBLIC KEY-----\nABCD\n-----END PUBLIC KEY-----\n");
  Store store(home.path());
  const Reference made = parse_reference("made"), pulled = parse_reference("pulled");
  const fs::path model = fs::path(GPUX_SOURCE_DIR) / "tests/models/add.onnx";
  const StoredModel own = store.add({.name = "made",
                                     .version = "1.0.0",
                                     .model_file = "add.onnx",
                                     .files = {{model, "add.onnx"}, {settings, "generation_config.json"}}},
                                    std::span(&made, 1));
  (void)store.adopt(store.manifest_of(own), IncomingBlobs(home.path()), std::span(&pulled, 1),
                    "registry.example/team/made:1", [] {});
  Uploads uploads({.home = home.path()}, [](Uploads::Clock::time_point, const std::function<void()>&) {});
  const auto create = [&](const char* from, std::vector<std::pair<std::string, double>> changed) -> std::string {
    try {
      (void)create_model({.name = "new", .from = from, .settings = std::move(changed)}, store, uploads, {},
                         [](const JobStatus&) {});
      return "created";
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(create("pulled", {{"temperature", 0.5}}), "created") << "there is no rule";
  EXPECT_EQ(store.find(parse_reference("new"))->pulled_from, "registry.example/team/made:1");
  home.write("trust.yml", "registries:\n  registry.example/team: key.pem\n");
  for (const auto& settings_of_request : {std::vector<std::pair<std::string, double>>{}, {{"temperature", 0.5}}}) {
    EXPECT_THAT(create("pulled", settings_of_request), HasSubstr("trust.yml"));
  }
  EXPECT_EQ(create("made", {{"temperature", 0.5}}), "created");
}

using Files = std::map<std::string, std::string>;

TEST(StoreCreation, TakesFilesThatBelongTogether) {
  EXPECT_EQ(gguf_among(Files{{"config.json", ""}, {"model.safetensors", ""}}), "");
  EXPECT_EQ(gguf_among(Files{{"b.gguf", ""}}), "b.gguf");
  EXPECT_EQ(
      gguf_among(Files{{"m-00003-of-00003.gguf", ""}, {"m-00001-of-00003.gguf", ""}, {"m-00002-of-00003.gguf", ""}}),
      "m-00001-of-00003.gguf");
}

TEST(StoreCreation, RefusesOthersBesideAGguf) {
  struct {
    Files files;
    const char* named;
  } const cases[]{
      {{{"a.gguf", ""}, {"b.gguf", ""}}, "'b.gguf' is beside 'a.gguf'"},
      {{{"m-00001-of-99999.gguf", ""}, {"n.gguf", ""}}, "'n.gguf' is beside"},
      {{{"a.gguf", ""}, {"config.json", ""}}, "'config.json' is beside 'a.gguf'"},
      {{{"m-00001-of-00002.gguf", ""}, {"n-00002-of-00002.gguf", ""}}, "'n-00002-of-00002.gguf' is beside"},
      {{{"m-00001-of-00002.gguf", ""}, {"m-00002-of-00003.gguf", ""}}, "'m-00002-of-00003.gguf' is beside"},
      {{{"m-00001-of-00002.gguf", ""}, {"m-00003-of-00002.gguf", ""}}, "'m-00003-of-00002.gguf' is beside"},
  };

  for (const auto& [files, named] : cases) {
    try {
      (void)gguf_among(files);
      ADD_FAILURE() << named;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.message(), HasSubstr(named));
    }
  }
}

}  // namespace
}  // namespace gpux::server
