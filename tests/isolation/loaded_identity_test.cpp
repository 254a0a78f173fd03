// What tells the model that a worker has loaded from the one before it.
#include "isolation/loaded_identity.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "provider/library_version.h"

namespace gpux::isolation {
namespace {

namespace fs = std::filesystem;

const LoadedIdentity one{{"ONNX Runtime", "1.31.1 (libonnxruntime.so, build 0a)"},
                         {"the precision", "fp32"},
                         {"provider cuda", "libcuda.so, build 1b"},
                         {"the file 'model.onnx'", "SHA-256 aa"},
                         {"the file 'weights.bin'", "SHA-256 bb"}};

LoadedIdentity with(const std::string& name, const std::string& value) {
  LoadedIdentity other = one;
  for (auto& [known, was] : other) {
    if (known == name) was = value;
  }
  return other;
}

TEST(LoadedIdentity, NamesWhatIsAnother) {
  LoadedIdentity without_provider = one;
  without_provider.erase(without_provider.begin() + 2);
  LoadedIdentity in_another_order(one.rbegin(), one.rend());

  struct Row {
    LoadedIdentity now;
    const char* difference;
  };

  for (const Row& row : std::vector<Row>{
           {one, ""},
           {in_another_order, ""},
           {with("ONNX Runtime", "1.32.0 (libonnxruntime.so, build 0c)"),
            "ONNX Runtime is 1.32.0 (libonnxruntime.so, build 0c), and was 1.31.1 (libonnxruntime.so, build 0a)"},
           {with("the precision", "fp16"), "the precision is fp16, and was fp32"},
           {with("provider cuda", "libcuda.so, build 1c"),
            "provider cuda is libcuda.so, build 1c, and was libcuda.so, build 1b"},
           {with("the file 'model.onnx'", "SHA-256 ac"), "the file 'model.onnx' is SHA-256 ac, and was SHA-256 aa"},
           {with("the file 'weights.bin'", "missing"), "the file 'weights.bin' is missing, and was SHA-256 bb"},
           {without_provider, "provider cuda is nothing, and was libcuda.so, build 1b"},
           {{}, "ONNX Runtime is nothing, and was 1.31.1 (libonnxruntime.so, build 0a)"}}) {
    EXPECT_EQ(difference(row.now, one), row.difference);
  }
  EXPECT_EQ(difference(one, without_provider), "provider cuda is libcuda.so, build 1b, and was nothing");
}

TEST(FileContents, IsOfTheBytesAndNotOfTheTime) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.write("weights.bin", "twos");
  FileContents contents({file});
  const LoadedIdentity before = contents.identity();
  contents.require_unchanged();
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  EXPECT_EQ(difference(contents.identity(), before), "");
  EXPECT_THROW(contents.require_unchanged(), FileChanged);
  // In place, of the same size, with the time that it had.
  const auto time = fs::last_write_time(file);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the kernel's clock is coarse
  folder.write("weights.bin", "five");
  fs::last_write_time(file, time);
  EXPECT_NE(difference(contents.identity(), before), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  folder.write("weights.bin", "twos");
  EXPECT_EQ(difference(contents.identity(), before), "");
  fs::remove(file);
  EXPECT_NE(difference(contents.identity(), before).find("weights.bin' is missing, and was SHA-256 "),
            std::string::npos);
}

TEST(FileContents, TellsFilesOfOneNameApart) {
  const test::TemporaryFolder folder;
  const fs::path outer = folder.write("model.onnx", "outer"), inner = folder.write("pre/model.onnx", "inner");
  FileContents contents({outer, inner});
  const LoadedIdentity before = contents.identity();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  folder.write("pre/model.onnx", "other");
  EXPECT_NE(difference(contents.identity(), before).find(inner.string()), std::string::npos);
}

TEST(LibraryContent, IsTheSameForACopy) {
  const test::TemporaryFolder folder;
  const fs::path library = GPUX_BUILT_LIBRARY;
  fs::create_directory(folder.path() / "other");
  const fs::path copy = folder.path() / "other" / library.filename();
  fs::copy_file(library, copy);
  EXPECT_NE(provider::library_content(library).find("build "), std::string::npos);
  EXPECT_EQ(provider::library_content(copy), provider::library_content(library));
  EXPECT_NE(provider::library_content(folder.write("text.so", "no library")),
            provider::library_content(folder.write("other.so", "none")));
}

}  // namespace
}  // namespace gpux::isolation
