#include "base/partial_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(PartialFiles, StayUntilTheyAreCommittedOrDiscarded) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "deeper/file", part = folder.path() / "deeper/file.part";
  {
    PartialFile partial(file);
    EXPECT_EQ(partial.size(), 0U);
    partial.append(bytes("one "));
    partial.append(bytes("two"));
    EXPECT_FALSE(fs::exists(file));
  }
  EXPECT_EQ(read_file(part), "one two");
  {
    PartialFile partial(file);
    EXPECT_EQ(partial.size(), 7U);
    partial.cut(4);
    partial.append(bytes("three"));
    partial.rewrite_beginning(bytes("1  "));
    partial.commit();
  }
  EXPECT_EQ(read_file(file), "1   three");
  EXPECT_FALSE(fs::exists(part));
  PartialFile partial(file);
  partial.append(bytes("more"));
  partial.discard();
  EXPECT_FALSE(fs::exists(part));
  EXPECT_EQ(read_file(file), "1   three");
}

TEST(PartialFiles, AreWrittenByOneAtATime) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  PartialFile partial(file);
  try {
    const PartialFile other(file);
    ADD_FAILURE() << "two have it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_THAT(error.message(), testing::HasSubstr("another process is writing it"));
  }
  partial.commit();
  EXPECT_NO_THROW(PartialFile(file).discard());
}

TEST(PartialFiles, AreRefusedWhereTheyCannotBe) {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  fs::create_directory(folder.path() / "other.part");
  EXPECT_THROW(PartialFile(folder.path() / "file/inside"), Error);
  EXPECT_THROW(PartialFile(folder.path() / "other"), Error);
}

}  // namespace
}  // namespace gpux
