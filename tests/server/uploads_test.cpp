#include "server/store_changes/uploads.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class UploadsTest : public testing::Test {
 protected:
  Uploads uploads(UploadOptions options = {}) {
    options.home = home_.path();
    return {options, [this](Uploads::Clock::time_point, std::function<void()> call) { later_ = std::move(call); }};
  }

  static std::string refusal(Uploads& uploads, const std::string& digest, const std::string& text, ErrorCode code) {
    try {
      uploads.keep(digest, bytes_of(text));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.message();
    }
    return {};
  }

  test::TemporaryFolder home_;
  std::function<void()> later_;
};

TEST_F(UploadsTest, KeepWhatHasItsDigest) {
  Uploads kept = uploads();
  const std::string digest = sha256_of("text");
  EXPECT_FALSE(kept.has(digest));
  kept.keep(digest, bytes_of("text"));
  kept.keep(digest, bytes_of("text"));
  EXPECT_TRUE(kept.has(digest));
  EXPECT_EQ(kept.bytes(), 4U);
  kept.lay_out(digest, home_.path() / "made/model.gguf");
  EXPECT_EQ(read_file(home_.path() / "made/model.gguf"), "text");
  EXPECT_THAT(refusal(kept, sha256_of("other"), "text", ErrorCode::invalid_input),
              HasSubstr("the body has the digest sha256:" + digest));
  EXPECT_FALSE(kept.has(sha256_of("other")));
  EXPECT_THROW(kept.lay_out(sha256_of("other"), home_.path() / "made/other"), Error);
}

TEST_F(UploadsTest, GoAfterTheirTimeAndWithTheObject) {
  const auto folders = [&] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(home_.path()))
      count += entry.is_regular_file();
    return count;
  };
  const std::size_t before = folders();
  {
    Uploads kept = uploads({.home = {}, .time_to_live = std::chrono::milliseconds(0)});
    kept.keep(sha256_of("text"), bytes_of("text"));
    EXPECT_GT(folders(), before);
    later_();
    EXPECT_FALSE(kept.has(sha256_of("text")));
    EXPECT_EQ(kept.bytes(), 0U);
    kept.keep(sha256_of("more"), bytes_of("more"));
  }
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(home_.path())) {
    left += entry.is_regular_file() && entry.file_size() == 4 ? 1 : 0;
  }
  EXPECT_EQ(left, 0U);
}

TEST_F(UploadsTest, AreLimited) {
  Uploads kept = uploads({.home = {}, .max_bytes = 10, .max_files = 2});
  kept.keep(sha256_of("12345678"), bytes_of("12345678"));
  EXPECT_THAT(refusal(kept, sha256_of("abc"), "abc", ErrorCode::resource_exhausted), HasSubstr("takes up to 2 of"));
  kept.keep(sha256_of("ab"), bytes_of("ab"));
  EXPECT_THAT(refusal(kept, sha256_of(""), "", ErrorCode::resource_exhausted), HasSubstr("the server keeps 2 files"));
  EXPECT_TRUE(kept.has(sha256_of("ab")));
}

}  // namespace
}  // namespace gpux::server
