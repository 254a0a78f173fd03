// The folder of stored prompts: whose files are read, and what stays of one that is not finished.
#include "generation/prompt_folder.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string name = prompt_file_name(std::string(64, 'a'), std::string(64, 'b'));

mode_t mode_of(const fs::path& path) {
  struct stat status {};

  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

bool write(const PromptFolder& folder, const std::string& file, std::string_view text,
           const std::stop_token& stop = {}) {
  const std::vector<std::span<const std::byte>> parts(2, std::as_bytes(std::span(text)));
  return folder.write(file, parts, stop);
}

class PromptFolders : public testing::Test {
 protected:
  static void expect_refused(const fs::path& path, const std::string& reason) {
    try {
      const PromptFolder folder(path);
      ADD_FAILURE() << path << " is used";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr(reason));
    }
  }

  test::TemporaryFolder parent_;
  const fs::path path_ = parent_.path() / "some/prompts";
};

TEST_F(PromptFolders, AreOfTheirUserAlone) {
  const PromptFolder folder(path_);
  EXPECT_EQ(mode_of(path_), 0700U);
  EXPECT_TRUE(write(folder, name, "rows"));
  EXPECT_EQ(mode_of(path_ / name), 0600U);
  (void)folder.secret();
  EXPECT_EQ(mode_of(path_ / "secret"), 0600U);
  ASSERT_EQ(folder.files().size(), 1U);
  EXPECT_EQ(folder.files().front().name, name);
  EXPECT_EQ(folder.files().front().bytes, 8U);
  EXPECT_EQ(folder.open(name).bytes, 8U);
}

TEST_F(PromptFolders, HaveOneSecretEach) {
  const std::string secret = PromptFolder(path_).secret();
  EXPECT_EQ(secret.size(), 32U);
  EXPECT_EQ(PromptFolder(path_).secret(), secret);
  EXPECT_NE(PromptFolder(parent_.path() / "other").secret(), secret);
}

TEST_F(PromptFolders, AreRefusedWhereOthersDecide) {
  fs::create_directories(path_);
  fs::create_directory_symlink(path_, parent_.path() / "link");
  expect_refused(parent_.path() / "link", "is a link");
  expect_refused(parent_.path() / "link/", "is a link");
  parent_.write("file", "text");
  expect_refused(parent_.path() / "file", "no folder");
  ::chmod(path_.c_str(), 0770);
  expect_refused(path_, "others may write to");
  ::chmod(path_.c_str(), 0700);
  if (::geteuid() != 0) return;  // nobody else may give a folder away
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  expect_refused(path_, "belongs to another user");
}

TEST_F(PromptFolders, FollowNoLinkAndReadNoFileOfOthers) {
  const PromptFolder folder(path_);
  parent_.write("outside", "rows");
  fs::create_symlink(parent_.path() / "outside", path_ / name);
  fs::create_directory(path_ / prompt_file_name(std::string(64, 'c'), std::string(64, 'd')));
  EXPECT_TRUE(folder.files().empty());
  EXPECT_FALSE(folder.open(name).descriptor);
  // The link is replaced, not the file behind it.
  EXPECT_TRUE(write(folder, name, "new"));
  EXPECT_EQ(fs::file_size(parent_.path() / "outside"), 4U);
  EXPECT_FALSE(fs::is_symlink(path_ / name));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown((path_ / name).c_str(), 12345, 12345), 0);
  EXPECT_TRUE(folder.files().empty());
  EXPECT_FALSE(folder.open(name).descriptor);
}

TEST_F(PromptFolders, LeaveOtherFilesAlone) {
  const PromptFolder folder(path_);
  for (const char* other : {"notes.txt", "x.prompt", "notes.part-1"})
    parent_.write(fs::path("some/prompts") / other, "text");
  const PromptFolder again(path_);
  EXPECT_TRUE(again.files().empty());
  EXPECT_EQ(names_in(path_).size(), 3U);
}

TEST_F(PromptFolders, HaveNothingOfAFileThatFails) {
  const PromptFolder folder(path_);
  const test::RecordedDisk disk(
      [](const DiskCall& call) { return call.operation == DiskOperation::write ? ENOSPC : 0; });
  try {
    write(folder, name, "rows");
    ADD_FAILURE() << "the disk is full";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_THAT(error.message(), HasSubstr("No space left on device"));
  }
  EXPECT_TRUE(names_in(path_).empty());
}

TEST_F(PromptFolders, HaveNothingOfAFileThatIsStopped) {
  const PromptFolder folder(path_);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(write(folder, name, "rows", stop.get_token()));
  EXPECT_TRUE(names_in(path_).empty());
}

// kill -9 between two writes: the part is no file, and is removed by the next process.
TEST_F(PromptFolders, HaveNoFileOfAProcessThatIsKilled) {
  const PromptFolder folder(path_);
  const pid_t child = ::fork();
  if (child == 0) {
    int writes = 0;
    const DiskObserver observer = [&](const DiskCall& call) {
      if (call.operation == DiskOperation::write && ++writes == 2) ::kill(::getpid(), SIGKILL);
      return 0;
    };
    observe_disk(&observer);
    write(folder, name, "rows");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names_in(path_).size(), 1U);
  EXPECT_TRUE(folder.files().empty());
  const PromptFolder next(path_);
  EXPECT_TRUE(names_in(path_).empty());
}

// Another process begins while a file is written.
TEST_F(PromptFolders, LeavePartsThatAreBeingWritten) {
  const PromptFolder folder(path_);
  const test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation == DiskOperation::write) (void)PromptFolder(path_);
    return 0;
  });
  EXPECT_TRUE(write(folder, name, "rows"));
  EXPECT_EQ(folder.files().size(), 1U);
}

TEST_F(PromptFolders, KnowWhatWasUsedLast) {
  const PromptFolder folder(path_);
  write(folder, name, "rows");
  const std::array<timespec, 2> past{timespec{1, 0}, timespec{1, 0}};
  ::utimensat(AT_FDCWD, (path_ / name).c_str(), past.data(), 0);
  const std::int64_t before = folder.files().front().last_use;
  folder.touch(name);
  EXPECT_GT(folder.files().front().last_use, before);
}

}  // namespace
}  // namespace gpux::generation
