#include "base/durability.h"

#include <cerrno>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/temporary_folder.h"

namespace {

std::mutex mutex;
std::vector<ino_t> synced, synced_file_systems;  // inodes of what was given to the system

int inode_to(std::vector<ino_t>& list, int descriptor) {
  struct stat status {};

  if (::fstat(descriptor, &status) != 0) return -1;
  const std::scoped_lock lock(mutex);
  list.push_back(status.st_ino);
  return 0;
}

}  // namespace

// The program's own come before the system's library: what is asked of the system is seen here.
extern "C" int fsync(int descriptor) {
  if (inode_to(synced, descriptor) != 0) return -1;
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int syncfs(int descriptor) noexcept {
  if (inode_to(synced_file_systems, descriptor) != 0) return -1;
  return static_cast<int>(::syscall(SYS_syncfs, descriptor));
}

namespace gpux {
namespace {

ino_t inode_of(const std::filesystem::path& path) {
  struct stat status {};

  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_ino;
}

TEST(Durability, IsAskedOfTheSystem) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("file", "text");
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  synced.clear();
  synced_file_systems.clear();
  EXPECT_EQ(sync_file(descriptor), 0);
  EXPECT_EQ(sync_file_system(descriptor), 0);
  EXPECT_EQ(sync_folder(folder.path()), 0);
  ::close(descriptor);
  EXPECT_THAT(synced, testing::ElementsAre(inode_of(file), inode_of(folder.path())));
  EXPECT_THAT(synced_file_systems, testing::ElementsAre(inode_of(file)));
}

TEST(Durability, TellsWhatTheSystemRefuses) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(sync_file(-1), EBADF);
  EXPECT_EQ(sync_file_system(-1), EBADF);
  EXPECT_EQ(sync_folder(folder.path() / "none"), ENOENT);
  EXPECT_EQ(rename_file(folder.path() / "none", folder.path() / "other"), ENOENT);
}

}  // namespace
}  // namespace gpux
