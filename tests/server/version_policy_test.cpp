#include "server/models/version_policy.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

TEST(VersionPolicy, ChoosesOfWhatIsThere) {
  struct Case {
    std::string policy;
    std::vector<std::string> there, served;
  };

  const std::vector<Case> cases{
      {"latest", {"2", "10", "9"}, {"10"}},
      {"latest:2", {"2", "10", "9"}, {"9", "10"}},
      {"latest:5", {"2", "10", "9"}, {"2", "9", "10"}},
      {"all", {"2", "10", "9"}, {"2", "9", "10"}},
      {"9,2", {"2", "10", "9"}, {"2", "9"}},
      {"1,3", {"2", "10", "9"}, {}},
      {"all", {}, {}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(served_versions(one.there, read_version_policy(one.policy)), one.served) << one.policy;
  }
}

TEST(VersionPolicy, IsRefusedWhereItIsNone) {
  for (const char* text : {"", "newest", "latest:", "latest:0", "latest:-1", "latest:x", "1,", "1,a", ",", "all:2"}) {
    EXPECT_THROW((void)read_version_policy(text), Error) << text;
  }
}

}  // namespace
}  // namespace gpux::server
