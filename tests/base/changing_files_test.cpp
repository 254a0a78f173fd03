#include "base/changing_files.h"

#include <cstring>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/temporary_folder.h"
#include "base/unique_fd.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

/// A file as a library maps it: privately, and to be written.
class Mapped {
 public:
  Mapped(const fs::path& file, std::size_t size, off_t offset = 0) : size_(size) {
    const UniqueFd descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    data_ = static_cast<char*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor.get(), offset));
    EXPECT_NE(data_, MAP_FAILED);
  }

  ~Mapped() { ::munmap(data_, size_); }

  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  [[nodiscard]] std::string text() const { return {data_, size_}; }

 private:
  char* data_ = nullptr;
  std::size_t size_;
};

std::string pages(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i / 4096 % 26);
  return text;
}

TEST(ChangingFiles, AreCopiedInPlace) {
  const test::TemporaryFolder folder;
  // More than one part, and a last page that the file does not fill.
  const std::string text = pages((std::size_t{65} << 20) + 100);
  const fs::path file = folder.write("a name\nof two lines", text), link = folder.path() / "link";
  fs::create_symlink(file, link);
  const Mapped whole(file, text.size()), part(file, 8192, 4096);
  const ChangingFiles files({link, folder.path() / "missing"});
  files.detach();
  fs::resize_file(file, 0);
  EXPECT_TRUE(whole.text() == text);
  EXPECT_TRUE(part.text() == text.substr(4096, 8192));
}

TEST(ChangingFiles, AreNotThoseThatChangedMeanwhile) {
  const test::TemporaryFolder folder;
  const std::string text = pages(100'000);
  const auto refuses = [&](const auto& change) {
    const fs::path file = folder.write("file", text);
    const Mapped mapped(file, text.size());
    const ChangingFiles files({file});
    change(file);
    try {
      files.detach();
    } catch (const FileChanged& error) {
      EXPECT_EQ(error.code(), ErrorCode::storage);
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refuses([](const fs::path& file) { fs::resize_file(file, 5000); }));
  EXPECT_TRUE(refuses([&](const fs::path& file) { folder.write("file", std::string(fs::file_size(file), 'x')); }));
  EXPECT_TRUE(refuses([&](const fs::path& file) { fs::rename(folder.write("other", text), file); }));
  EXPECT_TRUE(refuses([](const fs::path& file) { fs::remove(file); }));
  EXPECT_FALSE(refuses([](const fs::path&) {}));
}

TEST(ChangingFiles, LeaveOthersAlone) {
  const test::TemporaryFolder folder;
  const fs::path one = folder.write("one", pages(8192)), other = folder.write("other", pages(8192));
  const Mapped mapped(other, 8192);
  ChangingFiles({one}).detach();
  folder.write("other", std::string(8192, 'x'));
  EXPECT_EQ(mapped.text(), std::string(8192, 'x'));
  EXPECT_TRUE(ChangingFiles({folder.path() / "missing", folder.path()}).empty());
}

}  // namespace
}  // namespace gpux
