#include "base/file_lock.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

TEST(FileLock, TellsThatItWaits) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "lock";
  int calls = 0;
  std::optional<FileLock> held = FileLock::try_exclusive(file);
  ASSERT_TRUE(held);
  const FileLock taken = FileLock::exclusive(file, [&] {
    if (++calls == 3) held.reset();
  });
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(FileLock::try_exclusive(file));
}

TEST(FileLock, CanBeGivenUp) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "lock";
  {
    const FileLock held(file, FileLock::Mode::shared);
    EXPECT_THROW(FileLock::exclusive(file, [] { throw Error(ErrorCode::interrupted, "stop"); }), Error);
  }
  EXPECT_NO_THROW(FileLock::exclusive(file, [] { FAIL() << "nobody holds it"; }));
}

}  // namespace
}  // namespace gpux
