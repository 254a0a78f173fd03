// docs/custom-providers.md, done as it is written: the files in an empty folder beside ONNX Runtime's headers, then
// each command, and what it prints, … for anything.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/process.h"
#include "cli/program.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;

struct Step {
  std::string command;
  std::string shown;
};

struct Document {
  std::map<std::string, std::string> files;  // "`NAME`:", then a block
  std::vector<Step> steps;
};

Document read_document() {
  Document document;
  std::ifstream file(GPUX_SOURCE_DIR "/docs/custom-providers.md");
  std::string name, last;
  bool inside = false;
  for (std::string line; std::getline(file, line); last = line.empty() ? last : line) {
    if (line.starts_with("```")) {
      inside = !inside;
      name = inside ? last.substr(1, last.rfind('`') - 1) : "";
    } else if (inside) {
      document.files[name] += line + "\n";
    } else if (line.starts_with("    $ ")) {
      document.steps.push_back({line.substr(6), ""});
    } else if (line.starts_with("    ") && last.starts_with("    $ ")) {
      document.steps.back().shown = line.substr(4);
    }
  }
  return document;
}

TEST(CustomProviderDocument, WorksAsItIsWritten) {
  if (std::system("cmake --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no cmake";
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "mine";
  const Document document = read_document();
  ASSERT_EQ(document.files.size(), 2U);
  ASSERT_GE(document.steps.size(), 9U);
  fs::create_directories(folder / "onnxruntime");
  for (const auto& entry : fs::directory_iterator(GPUX_ONNXRUNTIME_INCLUDE)) {
    if (entry.path().extension() == ".h") fs::copy(entry.path(), folder / "onnxruntime");
  }
  for (const auto& [name, text] : document.files) write_file_atomically(folder / name, text);
  fs::copy_file(model("multiply.onnx"), folder / "model.onnx");
  const std::string path = Program::file().parent_path().string() + ":" + std::getenv("PATH");
  for (const Step& step : document.steps) {
    SCOPED_TRACE(step.command);
    const ProcessResult result =
        run_process({"/bin/sh", "-c", "cd " + folder.string() + " && " + step.command}, std::chrono::minutes(3),
                    {"GPUX_HOME=" + gpux.home().string(), "PATH=" + path});
    ASSERT_EQ(result.exit_code, 0) << result.standard_output << result.standard_error;
    if (!step.command.starts_with("gpux run")) continue;
    EXPECT_EQ(result.standard_output, step.shown + "\n");
    EXPECT_THAT(result.standard_error, testing::HasSubstr("ran on mine (1 of 2 nodes), cpu (1 of 2 nodes)"));
  }
}

}  // namespace
}  // namespace gpux::test
