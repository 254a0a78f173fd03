#include "server/requests/access.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

using Clock = Access::Clock;

struct KeyFile {
  test::TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "keys";

  void write(std::string_view text) const { write_file_atomically(path, text); }

  [[nodiscard]] Access open() const {
    return Access({path}, [path = path](const AccessRules* before) {
      const std::vector<ApiKey> keys = keys_of_file(read_file(path), path.string());
      return AccessRules{.keys = ApiKeys(keys, {}, before == nullptr ? nullptr : &before->keys), .limits = {}};
    });
  }
};

bool accepts(Access& access, std::string_view key, Clock::time_point now) {
  return access.rules(now)->keys.find("", key) != nullptr;
}

TEST(Access, ReadsItsFilesAgainWhenTheyChange) {
  const KeyFile file;
  file.write("first-key-123\n");
  Access access = file.open();
  const Clock::time_point now = Clock::now();
  EXPECT_TRUE(accepts(access, "first-key-123", now));
  file.write("second-key-456\n");
  EXPECT_TRUE(accepts(access, "first-key-123", now)) << "it looks once a second";
  EXPECT_FALSE(accepts(access, "first-key-123", now + std::chrono::seconds(2)));
  EXPECT_TRUE(accepts(access, "second-key-456", now + std::chrono::seconds(2)));
  EXPECT_EQ(access.reloads().succeeded, 1U);
  // The same file is not read again.
  EXPECT_TRUE(accepts(access, "second-key-456", now + std::chrono::seconds(4)));
  EXPECT_EQ(access.reloads().succeeded, 1U);
}

TEST(Access, KeepsTheLastKeysWhereTheFileCannotBeUsed) {
  const KeyFile file;
  file.write("first-key-123\n");
  Access access = file.open();
  const Clock::time_point now = Clock::now();
  file.write("# none\n");
  EXPECT_TRUE(accepts(access, "first-key-123", now + std::chrono::seconds(2)));
  EXPECT_EQ(access.reloads().failed, 1U);
  std::filesystem::remove(file.path);
  EXPECT_TRUE(accepts(access, "first-key-123", now + std::chrono::seconds(4)));
  EXPECT_EQ(access.reloads().failed, 2U);
  EXPECT_FALSE(access.reload());
  EXPECT_TRUE(access.rules()->keys.are_required());
  file.write("second-key-456\n");
  EXPECT_TRUE(access.reload());
  EXPECT_TRUE(accepts(access, "second-key-456", now));
}

TEST(Access, ReadsAgainWhatCouldNotBeReadForAMoment) {
  const KeyFile file;
  file.write("first-key-123\n");
  bool fails = false;
  std::vector<std::size_t> told;
  Access access(
      {file.path},
      [&](const AccessRules* /*before*/) {
        if (fails) throw Error(ErrorCode::storage, "an input/output error");
        return AccessRules{.keys = ApiKeys(keys_of_file(read_file(file.path), "keys"), {}), .limits = {}};
      },
      [&](const AccessRules& rules) { told.push_back(rules.keys.names().size()); });
  const Clock::time_point now = Clock::now();
  file.write("second-key-456\nthird-key-789\n");
  fails = true;
  for (const int seconds : {2, 4, 6}) {
    EXPECT_TRUE(accepts(access, "first-key-123", now + std::chrono::seconds(seconds)));
  }
  EXPECT_EQ(access.reloads().failed, 1U) << "for one reason";
  EXPECT_TRUE(told.empty());
  fails = false;
  EXPECT_FALSE(accepts(access, "first-key-123", now + std::chrono::seconds(8))) << "it was taken away";
  EXPECT_TRUE(accepts(access, "third-key-789", now + std::chrono::seconds(8)));
  EXPECT_EQ(told, std::vector<std::size_t>{2});
  EXPECT_EQ(access.reloads().succeeded, 1U);
}

TEST(Access, WithoutFilesStaysAsItIs) {
  Access access;
  EXPECT_FALSE(access.rules()->keys.are_required());
  EXPECT_TRUE(access.reload());
  EXPECT_EQ(access.reloads().succeeded, 0U);
}

}  // namespace
}  // namespace gpux::server
