#include "base/scratch_folder.h"

#include <array>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool has_thread_sanitizer = true;
#else
constexpr bool has_thread_sanitizer = false;
#endif
#else
constexpr bool has_thread_sanitizer = false;
#endif

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ScratchFolder, GoesWithTheObject) {
  const test::TemporaryFolder folder;
  const fs::path place = folder.path() / "new/made/";
  {
    const ScratchFolder scratch(place);
    EXPECT_EQ(scratch.path().parent_path(), folder.path() / "new");
    EXPECT_THAT(scratch.path().filename().string(), testing::StartsWith("made.gpux-"));
    fs::create_directories(scratch.path() / "deeper");
    std::ofstream(scratch.path() / "deeper/file") << "x";
    const ScratchFolder other(place);
    EXPECT_TRUE(fs::exists(scratch.path() / "deeper/file")) << "it is in use";
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "new"));
}

TEST(ScratchFolder, RemovesWhatAKilledProcessLeft) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  const test::TemporaryFolder folder;
  const fs::path place = folder.path() / "made";
  const pid_t child = ::fork();
  if (child == 0) {
    const ScratchFolder scratch(place);
    std::ofstream(scratch.path() / "file") << "x";
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(names_in(folder.path()).size(), 1U);
  folder.write("made.gpux-other/file", "");  // no such name is given
  folder.write("made/file", "");
  fs::create_symlink("/", folder.path() / "made.gpux-abcdef");
  const std::string own = ScratchFolder(place).path().filename();
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("made", "made.gpux-abcdef", "made.gpux-other"));
}

TEST(ScratchFolder, RemovesWhatAKilledProcessLeftBeside) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  const test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const ScratchFolder scratch(folder.path() / "output");
    std::ofstream(scratch.path() / "file") << "x";
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(names_in(folder.path()).size(), 1U);
  // A user's folder whose name is like it stays.
  fs::create_directory(folder.path() / "notes.gpux-abcdef");
  const ScratchFolder in_use(folder.path() / "third");
  const std::string third = in_use.path().filename();
  static_cast<void>(ScratchFolder(folder.path() / "another"));
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAre("notes.gpux-abcdef", third));
}

// Where the process is ended by a signal whose handler asks for it.
TEST(ScratchFolder, GoesBeforeASignalEndsTheProcess) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  const test::TemporaryFolder folder;
  for (const bool has_folder : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGTERM, [](int) {
        if (!end_without_scratch_folders(130)) ::_exit(131);
      });
      if (has_folder) {
        const ScratchFolder scratch(folder.path() / "made");
        std::ofstream(scratch.path() / "file") << "x";
        ::raise(SIGTERM);
        for (;;) ::pause();
      }
      ::raise(SIGTERM);
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), has_folder ? 130 : 131);
    EXPECT_TRUE(fs::is_empty(folder.path()));
  }
}

}  // namespace
}  // namespace gpux
