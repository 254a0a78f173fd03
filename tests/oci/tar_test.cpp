#include "registry/oci/tar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/process.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

std::string written(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  TarWriter tar([&](std::span<const std::byte> bytes) {
    archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  for (const auto& [name, content] : files) tar.add(name, content);
  tar.finish();
  return archive;
}

std::vector<TarEntry> listed(const std::string& archive) {
  return list_tar(std::as_bytes(std::span(archive)), "'x.tar'");
}

std::string refusal_of(const std::string& archive) {
  try {
    (void)listed(archive);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    return error.message();
  }
  return "nothing was refused";
}

TEST(Tar, ReadsBackWhatItWrites) {
  const std::vector<std::pair<std::string, std::string>> files{{"a", ""},
                                                               {"folder/b", "content"},
                                                               {std::string(300, 'n') + "/c", std::string(513, 'x')},
                                                               {"d", std::string(512, 'y')}};
  const std::string archive = written(files);
  const std::vector<TarEntry> entries = listed(archive);
  ASSERT_EQ(entries.size(), files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(entries[i].name, files[i].first);
    EXPECT_EQ(archive.substr(entries[i].offset, entries[i].bytes), files[i].second);
  }
}

TEST(Tar, TarReadsItAndIsRead) {
  const test::TemporaryFolder folder;
  const std::string long_name = std::string(120, 'n');
  folder.write("own.tar", written({{"a/b", "first"}, {long_name, "second"}}));
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"tar", "-C", folder.path()});
    const ProcessResult result = run_process(words);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  };
  run({"-xf", folder.path() / "own.tar"});
  EXPECT_EQ(test::content_of(folder.path() / "a/b"), "first");
  EXPECT_EQ(test::content_of(folder.path() / long_name), "second");
  for (const char* format : {"gnu", "pax", "ustar"}) {
    SCOPED_TRACE(format);
    std::vector<std::string> words{"-cf", folder.path() / "other.tar", fmt::format("--format={}", format), "./a"};
    if (std::string_view(format) != "ustar") words.push_back(long_name);
    run(words);
    const std::string archive = test::content_of(folder.path() / "other.tar");
    const std::vector<TarEntry> entries = listed(archive);
    ASSERT_GE(entries.size(), 1U);
    EXPECT_EQ(entries[0].name, "a/b");
    EXPECT_EQ(archive.substr(entries[0].offset, entries[0].bytes), "first");
    if (entries.size() > 1) {
      EXPECT_EQ(entries[1].name, long_name);
    }
  }
}

TEST(Tar, RefusesWhatIsDamaged) {
  const std::string archive = written({{"a", std::string(700, 'x')}});
  EXPECT_NE(refusal_of("").find("too short"), std::string::npos);
  EXPECT_NE(refusal_of("\x1f\x8b" + archive).find("gzip"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(1024, 'x')).find("not a tar"), std::string::npos);
  for (std::size_t size = 0; size + 1024 < archive.size(); size += 100) {
    EXPECT_NE(refusal_of(archive.substr(0, size)), "nothing was refused") << size;
  }
  std::string bent = archive;
  bent[0] = 'b';
  EXPECT_NE(refusal_of(bent), "nothing was refused");
  EXPECT_NE(refusal_of(written({{"a", "1"}, {"a", "2"}})).find("twice"), std::string::npos);
}

TEST(Tar, RefusesLinks) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("/etc/passwd", folder.path() / "link");
  ASSERT_EQ(run_process({"tar", "-C", folder.path(), "-cf", folder.path() / "links.tar", "link"}).exit_code, 0);
  EXPECT_NE(refusal_of(test::content_of(folder.path() / "links.tar")).find("link"), std::string::npos);
}

}  // namespace
}  // namespace gpux::oci
