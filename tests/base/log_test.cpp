// Messages are best effort: a full disk costs them and nothing else.
#include "base/log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gpux::log
