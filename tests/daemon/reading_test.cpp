// How far files have been read, which of them are to be read, and what is kept of it.
#include <cerrno>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"
#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "daemon/completed_prefix.h"
#include "daemon/directory_source.h"
#include "daemon/line_reader.h"
#include "daemon/position_file.h"
#include "daemon/rotation.h"
#include "daemon/spool.h"
#include "daemon/vector_folder.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TEST(CompletedPrefix, EndsBeforeTheFirstThatIsOpen) {
  CompletedPrefix prefix(100);
  EXPECT_EQ(prefix.offset(), 100U);
  const auto a = prefix.begin(110), b = prefix.begin(120), c = prefix.begin(150);
  EXPECT_EQ(prefix.open(), 3U);
  prefix.complete(c);
  prefix.complete(b);
  EXPECT_EQ(prefix.offset(), 100U);
  EXPECT_EQ(prefix.open(), 1U);
  prefix.complete(a);
  EXPECT_EQ(prefix.offset(), 150U);
  const auto d = prefix.begin(160);
  prefix.complete(d);
  EXPECT_EQ(prefix.offset(), 160U);
  EXPECT_EQ(prefix.open(), 0U);
}

TEST(Rotation, ListsTheFilesThatAreNotReadYet) {
  struct {
    std::vector<FolderFile> folder;
    std::uint64_t inode;
    std::vector<std::string> names;
  } const cases[]{
      {{}, 1, {}},
      {{{"log", 1}}, 0, {"log"}},
      {{{"log", 1}, {"log.1", 2}}, 1, {"log"}},
      {{{"log", 1}, {"log.1", 2}}, 2, {"log.1", "log"}},
      {{{"log", 9}, {"log.10", 2}, {"log.9", 3}, {"log.1", 4}, {"log.11", 5}}, 2, {"log.10", "log.9", "log.1", "log"}},
      {{{"log", 9}, {"log-20260103", 4}, {"log-20260102", 3}, {"log-20260101", 2}, {"log-20251231", 1}},
       2,
       {"log-20260101", "log-20260102", "log-20260103", "log"}},
      {{{"log", 9}, {"log.20260101", 2}, {"log.20260102", 3}}, 2, {"log.20260101", "log.20260102", "log"}},
      // packed, of another file, gone
      {{{"log", 9}, {"log.2", 2}, {"log.1.gz", 3}, {"log.3", 4}}, 2, {"log.2", "log"}},
      {{{"log", 9}, {"other", 2}}, 2, {"log"}},
      {{{"log.1", 2}}, 2, {"log.1"}},
      {{{"log.gz", 2}, {"log", 3}}, 2, {"log"}},
  };

  for (const auto& one : cases) {
    std::vector<std::string> names;
    for (const FolderFile& file : files_to_read(one.folder, "log", one.inode)) names.push_back(file.name);
    EXPECT_EQ(names, one.names) << one.inode << " of " << one.folder.size();
  }
}

UniqueFd opened(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

void append(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::app | std::ios::binary) << text;
}

TEST(LineReader, GivesLinesThatHaveEnded) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.write("log", "skipped\n{1}\n\n  \r\n{2}\r\n{3");
  const UniqueFd open = opened(file);
  LineReader reader(open.get(), 8, 100);
  FoundLine line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.text, "{1}");
  EXPECT_EQ(line.begin, 8U);
  EXPECT_EQ(line.end, 12U);
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.text, "{2}");
  EXPECT_EQ(line.begin, 17U);
  EXPECT_FALSE(reader.next(line));
  append(file, "}\n{4}\n{5}");
  EXPECT_FALSE(reader.next(line, 24)) << "of bytes that are not to be read";
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.text, "{3}");
  EXPECT_EQ(line.begin, 22U);
  ASSERT_TRUE(reader.next(line));
  EXPECT_FALSE(reader.next(line));
  ASSERT_TRUE(reader.rest(line));
  EXPECT_EQ(line.text, "{5}");
  EXPECT_EQ(reader.offset(), fs::file_size(file));
  EXPECT_FALSE(reader.rest(line));
}

TEST(LineReader, PassesOverWhatIsTooLongInBoundedMemory) {
  const test::TemporaryFolder folder;
  const std::string big(3'000'000, 'x');
  const fs::path file = folder.write("log", "{1}\n" + big + "\n{2}\n" + std::string(11, 'y') + "\n{3}\n" + big);
  const UniqueFd open = opened(file);
  LineReader reader(open.get(), 0, 10);
  FoundLine line;
  std::vector<std::string> seen;
  while (reader.next(line)) {
    seen.push_back(line.too_long ? "too long" : std::string(line.text));
    EXPECT_LE(line.text.size(), 4096U);
    if (seen.size() == 2) {
      EXPECT_EQ(line.begin, 4U);
      EXPECT_EQ(line.end, 4 + big.size() + 1);
    }
  }
  EXPECT_THAT(seen, ElementsAre("{1}", "too long", "{2}", "too long", "{3}"));
  ASSERT_TRUE(reader.rest(line));
  EXPECT_TRUE(line.too_long);
  EXPECT_EQ(line.end, fs::file_size(file));
}

TEST(PositionFile, IsKeptOrRefused) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "log.position";
  EXPECT_EQ(read_position(file), ReadPosition{});
  const ReadPosition position{.generation = 3, .inode = UINT64_MAX, .offset = 17, .before = "0aff"};
  write_position(file, position);
  EXPECT_EQ(read_position(file), position);
  folder.write("log.position", "{\"generation\": 3");
  EXPECT_THROW((void)read_position(file), Error);
}

std::vector<Spool::Place> append(Spool& spool, const std::vector<std::string_view>& lines) {
  return spool.append(lines);
}

TEST(Spool, GoesOnBehindTheLastWholeLine) {
  const test::TemporaryFolder folder;
  {
    Spool spool(folder.path() / "j", 5);
    const auto places = append(spool, {"one", "two"});
    ASSERT_EQ(places.size(), 2U);
    EXPECT_EQ(places[1].number, 5U);
    EXPECT_EQ(places[1].offset, 4U);
    EXPECT_EQ(spool.size(5), 8U);
  }
  append(folder.path() / "j/5.jsonl", "thr");  // as a kill leaves it
  Spool spool(folder.path() / "j", 1);
  EXPECT_EQ(spool.size(5), 8U);
  EXPECT_EQ(append(spool, {"four"})[0].offset, 8U);
  EXPECT_EQ(test::content_of(spool.file(5)), "one\ntwo\nfour\n");
  spool.begin_another();
  EXPECT_EQ(append(spool, {"five"})[0].number, 6U);
  EXPECT_EQ(spool.bytes_from(5, 8), 5U + 5U);
  EXPECT_EQ(spool.bytes_from(6, 5), 0U);
  EXPECT_EQ(spool.last(), 6U);
  spool.remove(5);
  EXPECT_EQ(spool.first(), 6U);
  EXPECT_FALSE(fs::exists(spool.file(5)));
}

TEST(DoneFiles, AreRememberedByNameAndStamp) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "events.done";
  {
    DoneFiles done(file);
    done.add("a b%.json", 1);
    done.add("line\nfeed.json", 0xfedcba9876543210U);
    done.add("a b%.json", 2);
  }
  append(file, "0000000000000003 cut");  // as a full disk leaves it
  {
    DoneFiles done(file);
    EXPECT_TRUE(done.has("a b%.json", 2));
    EXPECT_FALSE(done.has("a b%.json", 1));
    EXPECT_TRUE(done.has("line\nfeed.json", 0xfedcba9876543210U));
    EXPECT_FALSE(done.has("cut", 3));
    done.add("next.json", 4);
    for (int i = 0; i < 3000; ++i) done.add("gone.json", static_cast<std::uint64_t>(i));
    const test::RecordedDisk disk;
    done.keep_only({"next.json"});
    EXPECT_EQ(disk.risk_of_replaced(file), "");
    EXPECT_FALSE(done.has("gone.json", 2999));
    done.add("last.json", 5);
  }
  DoneFiles done(file);
  EXPECT_TRUE(done.has("next.json", 4));
  EXPECT_TRUE(done.has("last.json", 5));
  EXPECT_LT(fs::file_size(file), 200U);
}

TEST(VectorFolder, HasFilesWholeOrNotAtAll) {
  const test::TemporaryFolder folder;
  folder.write("vectors/.aa.vec.part", "half");
  VectorFolder vectors(folder.path());
  EXPECT_TRUE(fs::is_empty(folder.path() / "vectors")) << "what a kill left is there";
  EmbeddedEvent event;
  event.hash = "aa";
  event.vector = {1, 2};
  event.event = read_event(R"({"data": 1})", {});
  EXPECT_FALSE(vectors.has("aa"));
  const std::vector<EmbeddedEvent> twice{event, event};
  const std::vector<RefusedEvent> refused{
      {.hash = "bb", .source = "s", .position = "p", .reason = "r", .content = "c"}};
  vectors.write(twice, refused);
  EXPECT_TRUE(vectors.has("aa"));
  EXPECT_TRUE(vectors.has("bb"));
  EXPECT_EQ(test::content_of(folder.path() / "vectors/aa.vec"), vec_document(event));
  EXPECT_EQ(test::content_of(folder.path() / "timing/aa.json"), timing_document(event));
  EXPECT_EQ(test::content_of(folder.path() / "rejected/bb.json"), refusal_document(refused[0]));
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) files += entry.is_regular_file() ? 1U : 0U;
  EXPECT_EQ(files, 3U);
  fs::remove_all(folder.path() / "vectors");
  EXPECT_THROW(vectors.write(twice, {}), Error);
}

TEST(VectorFolder, SurvivesALossOfPowerOnceItHasWritten) {
  const test::TemporaryFolder folder;
  const fs::path output = folder.path() / "output";
  const test::RecordedDisk disk;
  VectorFolder vectors(output);
  EXPECT_TRUE(disk.has_synced_names(output)) << "of its folders";
  EmbeddedEvent event;
  event.hash = "aa";
  event.vector = {1, 2};
  event.event = read_event(R"({"data": 1})", {});
  const RefusedEvent refused{.hash = "bb", .source = "s", .position = "p", .reason = "r", .content = "c", .taken = {}};
  vectors.write(std::span(&event, 1), std::span(&refused, 1));
  for (const char* name : {"vectors/aa.vec", "timing/aa.json", "rejected/bb.json"}) {
    EXPECT_EQ(disk.risk_of_replaced(output / name), "") << name;
  }
}

// The .vec says that its event is done: it must not be there without the rest of it.
TEST(VectorFolder, RenamesTheVectorLast) {
  const test::TemporaryFolder folder;
  VectorFolder vectors(folder.path());
  EmbeddedEvent event;
  event.hash = "aa";
  event.vector = {1, 2};
  event.event = read_event(R"({"data": 1})", {});
  const test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation == DiskOperation::rename && call.target.extension() == ".vec") {
      EXPECT_TRUE(fs::exists(folder.path() / "timing/aa.json"));
    }
    return 0;
  });
  vectors.write(std::span(&event, 1), {});
}

TEST(Spool, SurvivesALossOfPowerOnceItHasAppended) {
  const test::TemporaryFolder folder;
  test::RecordedDisk disk;
  Spool spool(folder.path() / "j", 5);
  EXPECT_TRUE(disk.has_synced_names(folder.path()));
  EXPECT_TRUE(disk.has_synced_names(folder.path() / "j")) << "of the new file";
  append(spool, {"one", "two"});
  EXPECT_EQ(disk.risk_of_appended(spool.file(5)), "");
  append(spool, {"three"});
  EXPECT_EQ(disk.risk_of_appended(spool.file(5)), "");
  disk.forget();
  spool.begin_another();
  EXPECT_TRUE(disk.has_synced_names(folder.path() / "j")) << "of the next file";
}

TEST(Spool, KeepsNothingOfWhatCouldNotBeSynced) {
  const test::TemporaryFolder folder;
  Spool spool(folder.path() / "j", 5);
  append(spool, {"one"});
  {
    const test::RecordedDisk disk(
        [](const DiskCall& call) { return call.operation == DiskOperation::sync_file ? EIO : 0; });
    EXPECT_THROW(append(spool, {"two"}), Error);
  }
  EXPECT_EQ(test::content_of(spool.file(5)), "one\n");
  EXPECT_EQ(append(spool, {"three"})[0].offset, 4U);
}

TEST(PositionFile, SurvivesALossOfPower) {
  const test::TemporaryFolder folder;
  const test::RecordedDisk disk;
  write_position(folder.path() / "log.position", {.generation = 3, .inode = 1, .offset = 17, .before = "0aff"});
  EXPECT_EQ(disk.risk_of_replaced(folder.path() / "log.position"), "");
}

}  // namespace
}  // namespace gpux::daemon
