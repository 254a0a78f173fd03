// What the console's routes say, as far as it needs no server: tests/cli/serve_console_test.cpp has the rest.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "server/protocols/console/kept_value.h"
#include "server/protocols/console/page_files.h"
#include "server/protocols/console/state.h"

namespace gpux::server::console {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

TEST(ConsoleRecords, NameNoPathOfTheMachine) {
  log::RecentLine line;
  line.time = system_clock::time_point(milliseconds(1'700'000'000'123));
  line.level = log::Level::warning;
  line.message = "cannot read '/home/me/models/a.onnx': no such file";
  line.fields = {{"method", "POST"}, {"path", "/v1/models"}, {"file", "/home/me/b.onnx"}};
  FailedRequest failed;
  failed.time = line.time;
  failed.method = "POST";
  failed.path = "/predict";
  failed.status = "400";
  failed.reason = "no";
  failed.count = 3;
  const Json records = Json::parse(records_json({&failed, 1}, {&line, 1}));
  EXPECT_EQ(records.at("log"), Json::parse(R"([{"time": 1700000000123, "level": "warning",
                "text": "cannot read 'a.onnx': no such file method=POST path=/v1/models file=b.onnx"}])"));
  EXPECT_EQ(records.at("failures"),
            Json::parse(R"([{"time": 1700000000123, "method": "POST", "path": "/predict", "status": "400",
                "reason": "no", "id": "", "milliseconds": 0.0, "count": 3}])"));
}

TEST(ConsolePage, HasTheFilesOfItsFolder) {
  const std::string folder = GPUX_SOURCE_DIR "/src/server/protocols/console/page/";
  std::set<std::string_view> names;
  for (const EmbeddedFile& file : page_texts()) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    EXPECT_TRUE(file.text == read_file(folder + std::string(file.name))) << file.name;
  }
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(names.contains(entry.path().filename().string())) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, names.size());
}

// Its content security policy would stop them in a browser.
TEST(ConsolePage, HasNoMarkupFromTextsAndNoOtherHost) {
  for (const EmbeddedFile& file : page_texts()) {
    for (const char* forbidden : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "<script>",
                                  "style=\"", "onclick=\"", "https://", "document.cookie"}) {
      EXPECT_EQ(file.text.find(forbidden), std::string_view::npos) << file.name << ": " << forbidden;
    }
  }
}

TEST(ConsoleState, KeepsWhatTakesLongToRead) {
  using std::chrono::seconds;
  KeptValue<int> kept{seconds(10)};
  int reads = 0;
  const auto read = [&reads] { return ++reads; };
  const KeptValue<int>::Clock::time_point start(seconds(1000));
  EXPECT_EQ(kept.at(start, read), 1);
  EXPECT_EQ(kept.at(start + seconds(10), read), 1);
  EXPECT_EQ(kept.at(start + seconds(11), read), 2);
  EXPECT_EQ(kept.at(start + seconds(20), read), 2);
}

TEST(ConsoleState, NamesTheAbilitiesThatThePageShows) {
  EXPECT_EQ(name_of(TextAbility::embed), "embed");
  EXPECT_EQ(name_of(TextAbility::chat), "chat");
  // Of all, and not for a form of its own.
  EXPECT_EQ(name_of(TextAbility::any), "");
  EXPECT_EQ(name_of(TextAbility::tokenize), "");
}

}  // namespace
}  // namespace gpux::server::console
