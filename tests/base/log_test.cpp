// Messages are best effort: a full disk costs them and nothing else.
#include "base/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/recent_log.h"

namespace gpux::log {
namespace {

TEST(Log, DropsWhatAFullDiskDoesNotTake) {
  start(Level::info, Format::text);
  copy_to("/dev/full");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    EXPECT_NO_THROW(note("a line for the file alone"));
    EXPECT_NO_THROW(info("a line for both, {}", i));
  }
  const std::string shown = testing::internal::GetCapturedStderr();
  // The loss is reported once, and every line is shown.
  const std::string warning = "gpux: warning: the log file cannot be written, its lines are lost: ";
  EXPECT_EQ(shown.find(warning), 0U) << shown;
  EXPECT_EQ(shown.rfind(warning), 0U) << shown;
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(shown.find("\ngpux: info: a line for both, " + std::to_string(i) + "\n"), std::string::npos) << shown;
  }
  EXPECT_EQ(shown.find("LOG ERROR"), std::string::npos) << shown;
  start(Level::off, Format::text);
}

TEST(Log, KeepsTheLastLines) {
  start(Level::info, Format::json);
  testing::internal::CaptureStderr();
  info("before");
  EXPECT_TRUE(recent().empty());
  keep_recent(2);
  info("one");
  debug("is not shown");
  const std::vector<Field> fields{{"path", "/a b\n"}};
  write(Level::warning, "two \"quoted\"", fields);
  info("{}", std::string(10'000, 'n'));
  note("a line for the file alone");
  (void)testing::internal::GetCapturedStderr();
  const std::vector<RecentLine> lines = recent();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].message, "two \"quoted\"");
  EXPECT_EQ(lines[0].level, Level::warning);
  ASSERT_EQ(lines[0].fields.size(), 1U);
  EXPECT_EQ(lines[0].fields[0].second, "/a b ");
  EXPECT_EQ(lines[1].message.size(), 2000U);
  keep_recent(0);
  EXPECT_TRUE(recent().empty());
  start(Level::off, Format::text);
}

}  // namespace
}  // namespace gpux::log
