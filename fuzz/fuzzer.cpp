#include "fuzzer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"

namespace gpux::fuzz {
namespace {

namespace fs = std::filesystem;

bool is_one_line_of_text(std::string_view message) {
  return !message.empty() && is_utf8(message) &&
         std::none_of(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

class ScratchFolder {
 public:
  ScratchFolder() {
    const fs::path in_memory = "/dev/shm";
    std::error_code error;
    std::string path =
        (fs::is_directory(in_memory, error) ? in_memory : fs::temp_directory_path()) / "gpux-fuzz-XXXXXX";
    require(::mkdtemp(path.data()) != nullptr, "no scratch folder");
    path_ = path;
  }

  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

const fs::path& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path();
}

}  // namespace gpux::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    gpux::fuzz::read_hostile({reinterpret_cast<const char*>(data), size});
  } catch (const gpux::Error& error) {
    gpux::fuzz::require(error.code() != gpux::ErrorCode::internal, "a defect: " + error.message());
    gpux::fuzz::require(gpux::fuzz::is_one_line_of_text(error.message()),
                        "an error that is not one line of text: " + error.message());
  }
  return 0;
}
