#include "registry/hub/model_info.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::registry {
namespace {

const std::string commit(40, 'a'), digest(64, 'b');

std::string info_with(const std::string& siblings) {
  return fmt::format(R"({{"id": "org/name", "sha": "{}", "gated": false, "tags": ["license:mit"], "siblings": {}}})",
                     commit, siblings);
}

TEST(ModelInfo, IsRead) {
  const HubModelInfo info = parse_model_info(info_with(fmt::format(R"([{{"rfilename": "b", "size": 130, "blobId": "{}",
                                  "lfs": {{"sha256": "{}", "size": 5000}}}},
                                {{"rfilename": "a/c.json", "size": 12, "blobId": "{}"}}])",
                                                                   commit, digest, commit)));
  EXPECT_EQ(info.repository, "org/name");
  EXPECT_EQ(info.license, "mit");
  EXPECT_EQ(info.gated, "");
  ASSERT_EQ(info.files.size(), 2U);
  EXPECT_EQ(info.files[0].name, "a/c.json");
  EXPECT_EQ(info.files[0].content_id(), commit);
  EXPECT_EQ(info.find("b")->bytes, 5000U);
  EXPECT_EQ(info.find("b")->content_id(), digest);
  EXPECT_EQ(info.find("d"), nullptr);
}

TEST(ModelInfo, RefusesWhatIsNoAnswer) {
  for (const std::string& json :
       {std::string("<html>"), std::string("[]"), std::string("{}"), std::string(R"({"id": "org/name"})"),
        info_with("{}"), info_with("[1]"), info_with(R"([{"rfilename": "../x"}])"),
        info_with(R"([{"rfilename": "/x"}])"), info_with(R"([{"rfilename": "x"}, {"rfilename": "x"}])"),
        info_with(R"([{"rfilename": "x", "lfs": {"sha256": "1"}}])"),
        info_with(R"([{"rfilename": "x", "size": 18446744073709551615}])")}) {
    try {
      (void)parse_model_info(json);
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::network) << error.message();
    }
  }
}

TEST(SearchResults, AreRead) {
  const auto results = parse_search_results(R"([{"id": "a/b", "downloads": 7, "tags": ["onnx"]}, {"modelId": "c/d"}])");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].downloads, 7U);
  EXPECT_EQ(results[1].repository, "c/d");
  EXPECT_THROW(parse_search_results("{}"), Error);
  EXPECT_THROW(parse_search_results("[{}]"), Error);
}

}  // namespace
}  // namespace gpux::registry
