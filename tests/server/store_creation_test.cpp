#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "server/store_changes/model_creation.h"

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
