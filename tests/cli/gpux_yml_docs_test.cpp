// Each gpux.yml that a document shows is one that gpux takes, or is refused with the line that stands below it.
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;

struct Shown {
  std::string text;
  std::string refusal;  ///< the line of standard error; empty: it is taken
};

// The ```yaml blocks of a document. Behind one that is refused stands what gpux says, indented as a command's output.
std::vector<Shown> shown_in(const fs::path& document) {
  std::vector<Shown> found;
  std::istringstream lines(content_of(document));
  bool inside = false, behind = false;
  for (std::string line; std::getline(lines, line);) {
    if (inside) {
      inside = line != "```";
      behind = !inside;
      if (inside) found.back().text += line + "\n";
    } else if (line == "```yaml") {
      inside = true;
      found.emplace_back();
    } else if (behind && !line.empty()) {
      behind = false;
      if (line.starts_with("    gpux: ")) found.back().refusal = line.substr(4) + "\n";
    }
  }
  return found;
}

std::vector<fs::path> documents() {
  const fs::path source = GPUX_SOURCE_DIR;
  std::vector<fs::path> found;
  for (const char* folder : {"docs", "examples", "plugins", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  for (const char* file : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) found.push_back(source / file);
  return found;
}

class GpuxYmlInDocuments : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder());
    fs::copy_file(GPUX_SOURCE_DIR "/examples/digits/digits.onnx", folder() / "digits.onnx");
    for (const char* file : {"other.onnx", "libmine.so", "libother.so"}) {
      gpux_.folder().write(std::string("digits/") + file, "");
    }
    fs::copy_file(GPUX_HOSTILE_OPERATORS, folder() / "liboperators.so");
  }

  [[nodiscard]] fs::path folder() const { return gpux_.folder().path() / "digits"; }

  // With the model that the document speaks of beside it.
  [[nodiscard]] Outcome read(const std::string& text) const {
    gpux_.folder().write("digits/gpux.yml", text);
    return gpux_.run({"run", ".", "-i", "image=@" GPUX_SOURCE_DIR "/examples/digits/digit-3.npy"},
                     {.folder = folder()});
  }

  Program gpux_;
};

TEST_F(GpuxYmlInDocuments, IsTakenOrRefusedAsTheySay) {
  std::size_t taken = 0, refused = 0;
  for (const fs::path& document : documents()) {
    for (const Shown& shown : shown_in(document)) {
      SCOPED_TRACE(document.string() + ":\n" + shown.text);
      const Outcome outcome = read(shown.text);
      EXPECT_EQ(outcome.code, shown.refusal.empty() ? 0 : 3) << outcome.err;
      if (!shown.refusal.empty()) {
        EXPECT_EQ(outcome.err, shown.refusal);
      }
      ++(shown.refusal.empty() ? taken : refused);
    }
  }
  EXPECT_GE(taken, 3U) << "none would mean that the documents are not read";
  EXPECT_GE(refused, 3U);
}

// The whole example, beside the files of examples/digits and nothing else.
TEST_F(GpuxYmlInDocuments, RunsIsBuiltAndServedAsItIsShownWhole) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "digits";
  fs::copy(GPUX_SOURCE_DIR "/examples/digits", folder);
  fs::remove(folder / "gpux.yml");
  gpux.folder().write("digits/gpux.yml", shown_in(GPUX_SOURCE_DIR "/docs/gpux-yml.md").front().text);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", ".", "-i", "@digit-3.json"},
           {"run", ".", "-i", "@digit-3.png"},
           {"build", "."},
           {"run", "digits", "-i", "@digit-3.json"},
           {"serve", ".", "--detach", "--port", "0", "--grpc-port", "0"},
           {"stop"},
       }) {
    const Outcome outcome = gpux.run(arguments, {.folder = folder});
    EXPECT_EQ(outcome.code, 0) << arguments.front() << ": " << outcome.err;
    EXPECT_NE(outcome.out, "") << arguments.front();
  }
}

TEST_F(GpuxYmlInDocuments, IsTheExamplesToo) {
  for (const auto& entry : fs::recursive_directory_iterator(GPUX_SOURCE_DIR "/examples")) {
    if (entry.path().filename() != "gpux.yml") continue;
    const Outcome outcome = gpux_.run({"inspect", entry.path().parent_path().string()});
    EXPECT_EQ(outcome.code, 0) << entry.path() << ": " << outcome.err;
  }
}

void collect_keys(const Json& schema, std::vector<std::string>& keys) {
  if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object()) {
    for (const auto& [key, ignored] : schema["properties"].items()) keys.push_back(key);
  }
  if (schema.is_structured()) {
    for (const Json& inner : schema) collect_keys(inner, keys);
  }
}

TEST_F(GpuxYmlInDocuments, NamesEveryKeyThereIs) {
  const std::string page = content_of(GPUX_SOURCE_DIR "/docs/gpux-yml.md");
  std::vector<std::string> keys;
  collect_keys(gpux_.run({"schema"}).json(), keys);
  EXPECT_GE(keys.size(), 30U);
  for (const std::string& key : keys) {
    EXPECT_TRUE(page.find(key + ":") != std::string::npos || page.find("`" + key) != std::string::npos) << key;
  }
}

}  // namespace
}  // namespace gpux::test
