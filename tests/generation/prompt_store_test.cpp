// Prompts in files: what is found again, by whom, and what a file must not do.
#include "generation/prompt_store.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <future>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/eventually.h"
#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using Tokens = std::vector<std::uint32_t>;

constexpr CacheLayout layout{.arrays = 4, .heads = 2, .head_size = 8, .type = ElementType::float32};

Tokens tokens_from(std::uint32_t first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::size_t all_of_it(std::size_t stored) {
  return stored;
}

class PromptStores : public testing::Test {
 protected:
  std::unique_ptr<PromptStore> store(const std::string& identity = std::string(64, 'a'),
                                     std::uint64_t max_bytes = 1 << 24) const {
    return std::make_unique<PromptStore>(
        PromptStore::Options{.folder = folder_, .max_bytes = max_bytes, .identity = identity, .layout = layout}, [] {});
  }

  // Rows that depend on their tokens.
  static std::vector<std::byte> rows_of(const Tokens& tokens) {
    std::vector<std::byte> rows(tokens.size() * layout.bytes_per_token());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<std::byte>(tokens[i / layout.bytes_per_token()] + i % 7);
    }
    return rows;
  }

  static bool begin(PromptStore& store, const std::string& scope, const Tokens& tokens) {
    std::optional<PromptStore::Draft> draft = store.begin_write(store.scope_of(scope), tokens, {});
    if (!draft) return false;
    std::ranges::copy(rows_of(tokens), draft->rows.bytes().begin());
    store.write(*std::move(draft));
    return true;
  }

  static void write(PromptStore& store, const std::string& scope, const Tokens& tokens) {
    const PromptStoreStatistics before = store.statistics();
    ASSERT_TRUE(begin(store, scope, tokens));
    ASSERT_TRUE(test::eventually([&] {
      const PromptStoreStatistics now = store.statistics();
      return now.written_files + now.skipped_writes > before.written_files + before.skipped_writes;
    }));
  }

  // The tokens that are found, whose rows are those that were written.
  static std::size_t found(PromptStore& store, const std::string& scope, const Tokens& prompt, std::size_t known = 0) {
    const auto reading = store.read(store.scope_of(scope), prompt, known, all_of_it);
    if (!reading) return 0;
    const std::vector<std::byte> rows = rows_of(prompt);
    std::size_t end = known;
    for (bool is_over = false; !is_over;) {
      const PromptStore::Taken taken = store.take(*reading);
      is_over = taken.is_over;
      if (!taken.block) continue;
      EXPECT_LE(taken.block->first, end);
      EXPECT_LE(taken.block->first + taken.block->tokens, end + 256);
      end = taken.end;
      const std::size_t used = (end - taken.block->first) * layout.bytes_per_token();
      EXPECT_TRUE(std::ranges::equal(taken.block->rows.bytes().first(used),
                                     std::span(rows).subspan(taken.block->first * layout.bytes_per_token(), used)))
          << end;
    }
    return end;
  }

  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".prompt") all.push_back(entry.path());
    }
    return all;
  }

  // The system's clock for files may be too coarse to tell which one was used last.
  void age() const {
    for (const fs::path& file : files()) fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
  }

  static void overwrite(const fs::path& file, std::int64_t position, char byte) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(position, position < 0 ? std::ios::end : std::ios::beg);
    stream.put(byte);
    ASSERT_TRUE(stream.good());
  }

  test::TemporaryFolder parent_;
  const fs::path folder_ = parent_.path() / "prompts";
  const Tokens tokens_ = tokens_from(10, 700);
};

TEST_F(PromptStores, FindWhatWasWrittenBeforeARestart) {
  write(*store(), "scope", tokens_);
  const auto next = store();
  EXPECT_EQ(next->statistics().files, 1U);
  EXPECT_EQ(next->statistics().bytes, fs::file_size(files().front()));
  EXPECT_EQ(found(*next, "scope", tokens_), 700U);
  Tokens other = tokens_;
  other.resize(400);
  for (std::uint32_t i = 0; i < 300; ++i) other.push_back(5);
  EXPECT_EQ(found(*next, "scope", other), 400U) << "the beginning that both have";
  EXPECT_EQ(found(*next, "scope", tokens_, 300), 700U) << "without the first block";
  EXPECT_EQ(found(*next, "scope", tokens_, 690), 0U) << "not worth it";
  EXPECT_EQ(found(*next, "scope", tokens_from(11, 700)), 0U);
  const PromptStoreStatistics counts = next->statistics();
  EXPECT_EQ(counts.hits, 3U);
  EXPECT_EQ(counts.misses, 1U);
}

TEST_F(PromptStores, FindNothingOfAnotherScopeOrModel) {
  const std::string identity(64, 'a');
  write(*store(identity), "scope", tokens_);
  EXPECT_EQ(found(*store(identity), "other", tokens_), 0U);
  EXPECT_EQ(found(*store(identity), "", tokens_), 0U);
  // Also where its name begins alike.
  for (const std::string& other : {std::string(64, 'b'), std::string(63, 'a') + 'b'}) {
    const auto foreign = store(other);
    EXPECT_EQ(foreign->statistics().files, 0U);
    EXPECT_EQ(found(*foreign, "scope", tokens_), 0U);
  }
  EXPECT_EQ(files().size(), 1U) << "it is not damaged";
  EXPECT_EQ(found(*store(identity), "scope", tokens_), 700U);
}

// Who reads the folder alone cannot find out whose key or salt it was by trying.
TEST_F(PromptStores, KeepTheScopeAsAKeyedHash) {
  write(*store(), "scope of Alice", tokens_);
  std::ifstream stream(files().front(), std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(content.find("Alice"), std::string::npos);
  fs::remove(folder_ / "secret");
  EXPECT_EQ(found(*store(), "scope of Alice", tokens_), 0U);
}

TEST_F(PromptStores, IgnoreAndRemoveDamagedFiles) {
  const std::int64_t rows = static_cast<std::int64_t>(head_bytes(layout, 700));

  struct Case {
    const char* name;
    std::int64_t position;  // of a byte that is changed; of the end where it is negative
    std::uint64_t size;     // to which it is cut, instead
    std::size_t found;
  };

  const std::uint64_t whole = file_bytes(layout, 700);
  const std::vector<Case> cases{{"a number of tokens", 12, 0, 0},
                                {"a token", 300, 0, 0},
                                {"the first block", rows, 0, 0},
                                {"the last block", -1, 0, 512},
                                {"cut by a byte", 0, whole - 1, 0},
                                {"cut in the head", 0, 100, 0},
                                {"empty", 0, 0, 0}};
  for (const Case& one : cases) {
    write(*store(), "scope", tokens_);
    const fs::path file = files().front();
    if (std::string_view(one.name).starts_with("cut") || one.name == std::string("empty")) {
      fs::resize_file(file, one.size);
    } else {
      overwrite(file, one.position, '\x55');
    }
    const auto next = store();
    EXPECT_EQ(found(*next, "scope", tokens_), one.found) << one.name;
    EXPECT_TRUE(files().empty()) << one.name;
    EXPECT_EQ(found(*next, "scope", tokens_), 0U) << one.name;
  }
}

TEST_F(PromptStores, LeaveFilesOfOthersAlone) {
  const std::string identity(64, 'a');
  (void)store(identity);
  const fs::path link = folder_ / prompt_file_name(identity, std::string(64, 'c')),
                 foreign = folder_ / prompt_file_name(identity, std::string(64, 'd'));
  parent_.write("outside", "something else");
  fs::create_symlink(parent_.path() / "outside", link);
  std::ofstream(foreign) << std::string(1000, 'x');
  const auto next = store(identity);
  EXPECT_EQ(next->statistics().files, 0U);
  write(*next, "scope", tokens_);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(parent_.path() / "outside"));
}

// A file that goes while it is read, or before.
TEST_F(PromptStores, GoOnWithoutAFileThatIsRemoved) {
  const auto one = store();
  write(*one, "scope", tokens_);
  fs::remove(files().front());
  EXPECT_EQ(found(*one, "scope", tokens_), 0U);
}

TEST_F(PromptStores, KnowWhatWasUsedLast) {
  EXPECT_FALSE(store()->read_latest(1000).has_value());
  {
    const auto one = store();
    write(*one, "first", tokens_);
    age();
    write(*one, "second", tokens_from(3000, 500));
  }
  EXPECT_EQ(store()->read_latest(1000)->tokens, tokens_from(3000, 500));
  age();
  EXPECT_EQ(found(*store(), "first", tokens_), 700U);
  const auto next = store();
  const auto latest = next->read_latest(601);
  EXPECT_EQ(latest->tokens, tokens_from(10, 600));
  EXPECT_EQ(latest->scope, next->scope_of("first"));
}

TEST_F(PromptStores, SeeWhatOtherProcessesWrite) {
  const auto one = store(), other = store();
  write(*one, "scope", tokens_);
  EXPECT_TRUE(test::eventually([&] { return found(*other, "scope", tokens_) == 700; }));
}

TEST_F(PromptStores, ReplaceAShorterBeginning) {
  const auto one = store();
  Tokens shorter = tokens_, other = tokens_;
  shorter.resize(300);
  other.back() = 3;
  write(*one, "scope", shorter);
  write(*one, "other", shorter);
  write(*one, "scope", tokens_);
  EXPECT_EQ(one->statistics().files, 2U);
  EXPECT_EQ(files().size(), 2U);
  EXPECT_EQ(found(*one, "scope", tokens_), 700U);
  EXPECT_EQ(found(*one, "other", tokens_), 300U);
  write(*one, "scope", other);
  EXPECT_EQ(files().size(), 3U) << "it does not begin with the other";
}

TEST_F(PromptStores, RemoveWhatWasUsedLongestAgo) {
  const std::uint64_t each = file_bytes(layout, 700);
  const auto one = store(std::string(64, 'a'), 3 * each);
  std::vector<Tokens> all;
  for (std::uint32_t i = 0; i < 4; ++i) all.push_back(tokens_from(1000 * i, 700));
  for (std::size_t i = 0; i < 3; ++i) write(*one, "scope", all[i]);
  age();
  // The first one is used again.
  EXPECT_EQ(found(*one, "scope", all[0]), 700U);
  write(*one, "scope", all[3]);
  EXPECT_EQ(files().size(), 3U);
  EXPECT_EQ(found(*one, "scope", all[0]), 700U);
  EXPECT_EQ(found(*one, "scope", all[1]) + found(*one, "scope", all[2]), 700U) << "one of them is removed";
  EXPECT_EQ(found(*one, "scope", all[3]), 700U);
}

TEST_F(PromptStores, DecideByWhatTheyHave) {
  const auto one = store(std::string(64, 'a'), file_bytes(layout, 1000));
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_, 0), 700U);
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_from(1, 1500), 0), 1000U)
      << "as much as the folder takes";
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_from(10, 301), 0), 300U) << "an even number";
  write(*one, "scope", tokens_);
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_, 0), 0U);
  EXPECT_EQ(one->tokens_to_store(one->scope_of("other"), tokens_, 0), 700U);
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_from(10, 980), 0), 980U);
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_from(10, 800), 0), 0U);
}

// What is on its way counts, too, and no more than two are.
TEST_F(PromptStores, SkipWhatTheDiskIsTooSlowFor) {
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  const auto one = store();
  const test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation == DiskOperation::write) opened.wait();
    return 0;
  });
  EXPECT_TRUE(begin(*one, "scope", tokens_));
  EXPECT_EQ(one->tokens_to_store(one->scope_of("scope"), tokens_, 0), 0U);
  EXPECT_TRUE(begin(*one, "scope", tokens_from(5000, 700)));
  EXPECT_FALSE(begin(*one, "scope", tokens_from(7000, 700)));
  EXPECT_EQ(one->statistics().skipped_writes, 1U);
  gate.set_value();
  EXPECT_TRUE(test::eventually([&] { return one->statistics().written_files == 2; }));
  EXPECT_TRUE(begin(*one, "scope", tokens_from(7000, 700)));
}

TEST_F(PromptStores, GoOnWithoutRoomOnTheDisk) {
  const auto one = store();
  {
    const test::RecordedDisk disk(
        [](const DiskCall& call) { return call.operation == DiskOperation::write ? ENOSPC : 0; });
    write(*one, "scope", tokens_);
    write(*one, "scope", tokens_);
    EXPECT_EQ(one->statistics().skipped_writes, 2U);
    EXPECT_TRUE(files().empty());
  }
  write(*one, "scope", tokens_);
  EXPECT_EQ(one->statistics().written_files, 1U);
}

}  // namespace
}  // namespace gpux::generation
