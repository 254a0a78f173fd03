// gpux import as it is killed: the folder that it makes is there as a whole or not at all. And what it does not read.
#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;

class ImportedFolder : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(place_); }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::error_code gone;  // while it is looked at
    for (fs::directory_iterator entry(place_, gone), end; !gone && entry != end; entry.increment(gone)) {
      names.push_back(entry->path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  /// Sends the signal once the program has begun to make the folder. Its exit code, 128 + signal where that ended it.
  [[nodiscard]] int import_and_send(int signal) const {
    const Started started =
        start(gpux_, {"import", source_, "-o", target_.string()}, gpux_.folder().path() / "log", false, {});
    ::close(started.out);
    int status = 0;
    bool is_sent = false;
    while (::waitpid(started.child, &status, WNOHANG) == 0) {
      if (is_sent || names().empty()) continue;
      ::kill(started.child, signal);
      is_sent = true;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// Until the signal has come while the folder was being made.
  void interrupt(int signal, int expected_code) {
    int code = 0;
    for (int i = 0; i < 2000 && code != expected_code; ++i) {
      fs::remove_all(target_);
      code = import_and_send(signal);
      ASSERT_THAT(code, testing::AnyOf(0, expected_code));
    }
    ASSERT_EQ(code, expected_code);
  }

  Program gpux_;
  std::string source_ = GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls";
  fs::path place_ = gpux_.folder().path() / "place";
  fs::path target_ = place_ / "made";
};

TEST_F(ImportedFolder, LeavesNothingWhenItIsInterrupted) {
  for (const int signal : {SIGTERM, SIGINT}) {
    interrupt(signal, 130);
    EXPECT_THAT(names(), testing::Each("made")) << "nothing, or the whole folder";
    if (fs::exists(target_)) {
      EXPECT_TRUE(fs::exists(target_ / "model.onnx"));
    }
  }
}

TEST_F(ImportedFolder, IsCleanedUpByTheNextImportWhenItWasKilled) {
  interrupt(SIGKILL, 128 + SIGKILL);
  EXPECT_THAT(names(), testing::Each(testing::AnyOf("made", testing::StartsWith("made.gpux-"))));
  fs::remove_all(target_);
  const Outcome outcome = gpux_.run({"import", source_, "-o", target_.string() + "/"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(names(), testing::ElementsAre("made"));
  EXPECT_TRUE(fs::exists(target_ / "model.onnx"));
}

TEST(Import, SaysThatItDoesNotReadAProjectFile) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "encoder";
  fs::copy(GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls", folder, fs::copy_options::recursive);
  const std::string target = (gpux.folder().path() / "made").string();
  const std::string line = "import does not read '" + (folder / "gpux.yml").string() + "'";
  EXPECT_THAT(gpux.run({"import", folder, "-o", target + "1"}).err, testing::Not(testing::HasSubstr("gpux.yml")));
  (void)gpux.folder().write("encoder/gpux.yml", "version: [\n");
  const Outcome outcome = gpux.run({"import", folder, "-o", target + "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr(line));
  EXPECT_THAT(gpux.run({"import", folder, "-o", target + "3", "--json"}).err, testing::HasSubstr(line));
}

TEST(Import, NamesTokensThatTheModelHasNoEmbeddingsFor) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "encoder";
  fs::copy(GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls", folder, fs::copy_options::recursive);
  const std::string target = (gpux.folder().path() / "made").string();
  EXPECT_THAT(gpux.run({"import", folder, "-o", target + "1"}).err, testing::Not(testing::HasSubstr("embeddings for")));
  (void)gpux.folder().write("encoder/tokenizer_config.json",
                            R"({"added_tokens_decoder": {"1500": {"content": "[QUERY]", "special": true}}})");
  const std::string line =
      "tokenizer.json: the tokenizer has 1501 tokens, and the model has embeddings for the first "
      "1500: texts with '[QUERY]' are refused";
  const Outcome converted = gpux.run({"import", folder, "-o", target + "2"});
  EXPECT_EQ(converted.code, 0) << converted.err;
  EXPECT_THAT(converted.err, testing::HasSubstr(line));
  const Outcome stored = gpux.run({"import", target + "2", "-t", "encoder"});
  EXPECT_EQ(stored.code, 0) << stored.err;
  EXPECT_THAT(stored.err, testing::HasSubstr(line)) << "also of a folder with an ONNX file";
}

}  // namespace
}  // namespace gpux::test
