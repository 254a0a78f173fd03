// Flags that were renamed: the former names do what the present ones do, and the document lists them all.
#include "cli/former_flags.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"

namespace gpux::test {
namespace {

using cli::FormerFlag;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::vector<std::string> present(const Words& words) {
  return cli::with_present_flags(words);
}

TEST(FormerFlags, AreReplacedInTheirCommandOnly) {
  struct Case {
    Words typed;
    std::vector<std::string> read;
  };

  const std::vector<Case> cases{
      {{"gpux", "search", "--top", "3"}, {"gpux", "search", "--top-k", "3"}},
      {{"gpux", "search", "--top=3"}, {"gpux", "search", "--top-k=3"}},
      {{"gpux", "-q", "--log-format", "json", "search", "--in", "a"},
       {"gpux", "-q", "--log-format", "json", "search", "--index", "a"}},
      {{"gpux", "help", "search"}, {"gpux", "help", "search"}},
      // Of another command, a text, the beginning of another flag, the present name.
      {{"gpux", "embed", "--in", "a"}, {"gpux", "embed", "--in", "a"}},
      {{"gpux", "search", "--", "--in"}, {"gpux", "search", "--", "--in"}},
      {{"gpux", "search", "--top-k", "3"}, {"gpux", "search", "--top-k", "3"}},
      {{"gpux", "search", "in", "=--in"}, {"gpux", "search", "in", "=--in"}},
      {{"gpux", "bench", "--optimization", "all"}, {"gpux", "bench", "--optimization-level", "all"}},
      {{"gpux", "bench", "--optimization-level", "all"}, {"gpux", "bench", "--optimization-level", "all"}},
      {{"gpux"}, {"gpux"}},
      {{}, {}},
  };
  for (const Case& one : cases) EXPECT_EQ(present(one.typed), one.read);
}

TEST(FormerFlags, AreInTheDocumentAndNotInTheHelp) {
  const std::string document = read_file(GPUX_SOURCE_DIR "/docs/command-line.md");
  Program gpux;
  for (const FormerFlag& flag : cli::former_flags()) {
    SCOPED_TRACE(flag.former);
    const std::string command(flag.command.empty() ? "run" : flag.command);
    EXPECT_THAT(document, HasSubstr(fmt::format("| {} | `{}` | `{}` |",
                                                flag.command.empty() ? "all that load a model" : "`" + command + "`",
                                                flag.former, flag.present)));
    const std::string help = gpux.run({command, "--help"}).out;
    EXPECT_THAT(help, HasSubstr(std::string(flag.present) + " "));
    EXPECT_THAT(help, Not(HasSubstr(std::string(flag.former) + " ")));
  }
}

TEST(FormerFlags, DoWhatThePresentOnesDo) {
  Program gpux;
  const auto answer = [&](const std::string& output_name, const std::string& optimization) {
    return gpux.run({"run", model("add.onnx"), "-i", "x=[[1, 2, 3]]", output_name, "y", optimization + "=basic"});
  };
  const Outcome former = answer("--select", "--optimization"), now = answer("--output-name", "--optimization-level");
  EXPECT_EQ(now.code, 0) << now.err;
  EXPECT_EQ(former.out, now.out);
  EXPECT_EQ(former.code, now.code);
}

}  // namespace
}  // namespace gpux::test
