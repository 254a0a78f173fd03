// Runs a fuzzer's corpus once, without a fuzzing engine.
// usage: replay_NAME FOLDER
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
  if (count != 2) return 2;
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    std::fprintf(stderr, "%s\n", entry.path().c_str());  // the last one named is the one that failed
    const std::string content = gpux::read_file(entry.path());
    // In memory of exactly its size, so that a sanitizer sees a read beyond it.
    const std::vector<std::uint8_t> bytes(content.begin(), content.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++inputs;
  }
  std::printf("%d inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}
