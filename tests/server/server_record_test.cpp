#include "server/server_record.h"

#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/recorded_disk.h"
#include "base/temporary_folder.h"

namespace gpux::server {
namespace {

class ServerRecords : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* home = ::getenv("GPUX_HOME")) home_ = home;
    ::setenv("GPUX_HOME", folder_.path().c_str(), 1);
  }

  void TearDown() override { home_.empty() ? ::unsetenv("GPUX_HOME") : ::setenv("GPUX_HOME", home_.c_str(), 1); }

  const test::TemporaryFolder folder_;
  std::string home_;
};

TEST_F(ServerRecords, AreReplacedAsAWhole) {
  const test::RecordedDisk disk;
  const std::filesystem::path file = folder_.path() / fmt::format("servers/{}.json", ::getpid());
  {
    const OwnRecord record({.port = 8080, .models = {"m"}});
    EXPECT_EQ(disk.risk_of_replaced(file), "");
    ASSERT_EQ(running_servers().size(), 1U);
    EXPECT_EQ(running_servers().front().port, 8080);
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(running_servers().empty());
}

}  // namespace
}  // namespace gpux::server
