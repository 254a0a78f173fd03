// Files that are replaced as a whole, and what a loss of power must not take: the order of writes, syncs and renames.
#include "base/files.h"

#include <cerrno>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/durability.h"
#include "base/file_error.h"
#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using test::RecordedDisk;

constexpr auto kept = FileReplacement::Uncommitted::kept;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(FileReplacement, SurvivesALossOfPowerOnceItIsCommitted) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  const RecordedDisk disk;
  FileReplacement replacement(file);
  replacement.append(bytes("one "));
  replacement.append(bytes("two"));
  replacement.commit();
  EXPECT_EQ(disk.risk_of_replaced(file), "");
  EXPECT_EQ(read_file(file), "one two");
}

TEST(KeptParts, SurviveALossOfPowerOnceTheyAreCommitted) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "new/file";
  const RecordedDisk disk;
  FileReplacement partial(file, kept);
  partial.append(bytes("one"));
  partial.overwrite_beginning(bytes("O"));
  partial.commit();
  EXPECT_EQ(disk.risk_of_replaced(file), "");
  EXPECT_TRUE(disk.has_synced_names(folder.path())) << "of its folder, which is new";
}

TEST(FileReplacement, CanBeCommittedUnderAnotherName) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder.path() / "other");
  const fs::path place = folder.path() / "other/name";
  const RecordedDisk disk;
  FileReplacement replacement(folder.path() / "file");
  replacement.append(bytes("text"));
  replacement.commit_as(place);
  EXPECT_EQ(read_file(place), "text");
  EXPECT_EQ(disk.risk_of_replaced(place), "its folder was not synced after the rename") << "the caller does that";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Folders, SurviveALossOfPowerWithTheirNewParents) {
  const test::TemporaryFolder folder;
  const RecordedDisk disk;
  write_file_atomically(folder.path() / "a/b/c/file", "text");
  for (const char* parent : {"", "a", "a/b"}) {
    const fs::path synced = *parent == '\0' ? folder.path() : folder.path() / parent;
    EXPECT_TRUE(disk.has_synced_names(synced)) << synced;
  }
  EXPECT_FALSE(disk.has_synced_names(folder.path().parent_path())) << "it was there before";
}

TEST(Folders, CannotBeMadeInAFile) {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_TRUE(make_folders(folder.path() / "file/below"));
  EXPECT_TRUE(make_folders(folder.path() / "file"));
  EXPECT_FALSE(make_folders(folder.path() / "new//"));
  EXPECT_TRUE(fs::is_directory(folder.path() / "new"));
}

TEST(FileReplacement, ReplacesNothingButFiles) {
  const test::TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const fs::path to_device = folder.path() / "device";
  fs::create_symlink("/dev/null", to_device);
  for (const fs::path& place : {pipe, to_device, folder.path()}) {
    try {
      write_file_atomically(place, "text");
      ADD_FAILURE() << place;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::storage) << place;
    }
    EXPECT_THROW(FileReplacement(place, kept), Error) << place;
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(to_device));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(FileReplacement, ReplacesTheFileBehindALink) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder.path() / "elsewhere");
  const fs::path file = folder.path() / "elsewhere" / "file", link = folder.path() / "link";
  write_file_atomically(file, "old");
  fs::create_symlink("elsewhere/file", link);
  write_file_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(file), "new");
  FileReplacement part(link, kept);
  part.append(bytes("newer"));
  part.commit();
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(file), "newer");
}

TEST(FileReplacement, LeavesTheOldFileWhereAnyStepFails) {
  for (const DiskOperation operation : {DiskOperation::write, DiskOperation::sync_file, DiskOperation::rename}) {
    const test::TemporaryFolder folder;
    const fs::path file = folder.write("file", "old");
    const RecordedDisk disk([&](const DiskCall& call) { return call.operation == operation ? ENOSPC : 0; });
    try {
      write_file_atomically(file, "new");
      ADD_FAILURE() << "no error";
    } catch (const FileError& error) {
      EXPECT_EQ(error.error_number(), ENOSPC);
      EXPECT_EQ(error.code(), ErrorCode::storage);
      EXPECT_EQ(error.message(), "cannot write '" + file.string() + "': No space left on device");
    }
    EXPECT_EQ(test::content_of(file), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  }
}

TEST(KeptParts, StayUntilTheyAreCommittedOrDiscarded) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "deeper/file", part = folder.path() / "deeper/file.part";
  {
    FileReplacement partial(file, kept);
    EXPECT_EQ(partial.size(), 0U);
    partial.append(bytes("one "));
    partial.append(bytes("two"));
    EXPECT_FALSE(fs::exists(file));
  }
  EXPECT_EQ(read_file(part), "one two");
  {
    FileReplacement partial(file, kept);
    EXPECT_EQ(partial.size(), 7U);
    partial.cut(4);
    partial.append(bytes("three"));
    partial.overwrite_beginning(bytes("1  "));
    partial.commit();
  }
  EXPECT_EQ(read_file(file), "1   three");
  EXPECT_FALSE(fs::exists(part));
  FileReplacement partial(file, kept);
  partial.append(bytes("more"));
  partial.discard();
  EXPECT_FALSE(fs::exists(part));
  EXPECT_EQ(read_file(file), "1   three");
}

TEST(KeptParts, AreWrittenByOneAtATime) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  FileReplacement partial(file, kept);
  try {
    const FileReplacement other(file, kept);
    ADD_FAILURE() << "two have it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_THAT(error.message(), testing::HasSubstr("another process is writing it"));
  }
  partial.commit();
  EXPECT_NO_THROW(FileReplacement(file, kept).discard());
}

TEST(KeptParts, AreRefusedWhereTheyCannotBe) {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  fs::create_directory(folder.path() / "other.part");
  EXPECT_THROW(FileReplacement(folder.path() / "file/inside", kept), Error);
  EXPECT_THROW(FileReplacement(folder.path() / "other", kept), Error);
}

}  // namespace
}  // namespace gpux
