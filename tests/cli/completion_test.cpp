#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

// What bash itself does on Tab: it takes the line apart, calls the function, and reads COMPREPLY.
constexpr const char* press_tab = R"sh(
source "$1"
complete -p gpux >/dev/null || exit 9
cd "$3" || exit 9
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_LINE=$2 COMP_POINT=${#2}
_gpux
printf '%s\n' "${COMPREPLY[@]}"
)sh";

bool is_installed(const std::string& program) {
  return run_process({"sh", "-c", "command -v \"$0\"", program}).exit_code == 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

class Completion : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome built = gpux_.run({"build", model("add.onnx"), "-t", "adder:1.0", "-t", "team/other:2"});
    ASSERT_EQ(built.code, 0) << built.err;
    std::filesystem::create_directories(files());
    gpux_.folder().write("files/my model.onnx", "");
    gpux_.folder().write("files/input.json", "");
  }

  [[nodiscard]] std::filesystem::path files() const { return gpux_.folder().path() / "files"; }

  [[nodiscard]] std::filesystem::path script(const std::string& shell) const {
    const Outcome outcome = gpux_.run({"completion", shell});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return gpux_.folder().write("completion." + shell, outcome.out);
  }

  /// What bash offers for a line behind "gpux ".
  [[nodiscard]] std::vector<std::string> offered(const std::string& line) const {
    const ProcessResult result = run_process({"bash", "-c", press_tab, "bash", script("bash").string(),
                                              Program::file().string() + " " + line, files().string()},
                                             std::chrono::seconds(30), {"GPUX_HOME=" + gpux_.home().string()});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(result.standard_error, "");
    return lines_of(result.standard_output);
  }

  Program gpux_;
};

TEST_F(Completion, OffersInBashWhatTheProgramTakes) {
  EXPECT_THAT(offered(""), IsSupersetOf({"build", "completion", "doctor", "inspect", "providers", "run", "schema"}));
  EXPECT_THAT(offered("ins"), ElementsAre("inspect"));
  EXPECT_THAT(offered("-q ins"), ElementsAre("inspect"));
  EXPECT_THAT(offered("--log-format j"), ElementsAre("json"));
  EXPECT_THAT(offered("--log-format json ru"), ElementsAre("run"));
  EXPECT_THAT(offered("run --prov"), ElementsAre("--provider", "--provider-library", "--provider-option"));
  EXPECT_THAT(offered("version --"), AllOf(Contains("--json"), Contains("--quiet"), Not(Contains("--provider"))));
  EXPECT_THAT(offered("completion "), ElementsAre("bash", "fish", "zsh"));
  EXPECT_THAT(offered("completion --"), Not(Contains("--names")));
}

TEST_F(Completion, OffersInBashWhatAFlagTakes) {
  EXPECT_THAT(offered("run adder --provider cu"), ElementsAre("cuda"));
  EXPECT_THAT(offered("run adder -p openv"), ElementsAre("openvino"));
  EXPECT_THAT(offered("run --provider=cu"), ElementsAre("cuda"));
  EXPECT_THAT(offered("run --non-finite "), ElementsAre("null", "string"));
  EXPECT_THAT(offered("run --threads "), ElementsAre());
  EXPECT_THAT(offered("run --optimization-level ba"), ElementsAre("basic"));
  EXPECT_THAT(offered("run --output-name "), ElementsAre());
  EXPECT_THAT(offered("embed --level "), ElementsAre("high", "low", "medium", "none"));
  EXPECT_THAT(offered("run --config in"), ElementsAre("input.json"));
  EXPECT_THAT(offered("run adder --input @in"), ElementsAre("@input.json"));
}

TEST_F(Completion, OffersInBashFilesAndNamesOfTheStore) {
  EXPECT_THAT(offered("run ad"), ElementsAre("adder:1.0"));
  EXPECT_THAT(offered("inspect "), ElementsAre("adder:1.0", "input.json", "my model.onnx", "team/other:2"));
  EXPECT_THAT(offered("inspect te"), ElementsAre("team/other:2"));
  EXPECT_THAT(offered("run my"), ElementsAre("my model.onnx"));
  // Behind a colon bash holds what follows for a word of its own.
  EXPECT_THAT(offered("rm adder:1"), ElementsAre("1.0"));
}

TEST_F(Completion, ListsNamesWithoutAModelInTheStoreToo) {
  EXPECT_EQ(gpux_.run({"completion", "--names"}).out, "adder:1.0\nteam/other:2\n");
  EXPECT_EQ(gpux_.run({"completion", "--names", "--json"}).json(), (Json{"adder:1.0", "team/other:2"}));
  const Program other;
  const Outcome none = other.run({"completion", "--names"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
}

TEST_F(Completion, SpeaksJsonOnlyWhereAsked) {
  const Json json = gpux_.run({"completion", "zsh", "--json"}).json();
  EXPECT_EQ(json["shell"], "zsh");
  EXPECT_THAT(json["script"].get<std::string>(), StartsWith("#compdef gpux\n"));
  EXPECT_EQ(gpux_.run({"completion"}).code, 2);
  EXPECT_EQ(gpux_.run({"completion", "powershell"}).code, 2);
}

TEST_F(Completion, IsWellFormedForZsh) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const ProcessResult checked = run_process({"zsh", "-n", script("zsh").string()});
  EXPECT_EQ(checked.exit_code, 0) << checked.standard_error;
  const ProcessResult sourced =
      run_process({"zsh", "-fc", "autoload -U compinit && compinit -D && source $1 && print $_comps[gpux]", "zsh",
                   script("zsh").string()});
  EXPECT_EQ(sourced.standard_output, "_gpux\n") << sourced.standard_error;
}

TEST_F(Completion, OffersInFishWhatTheProgramTakes) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  const auto fish_offers = [&](const std::string& line) {
    const ProcessResult result =
        run_process({"fish", "--no-config", "-c", "source $argv[1]; cd $argv[3]; complete -C $argv[2] | cut -f1",
                     script("fish").string(), "gpux " + line, files().string()},
                    std::chrono::seconds(60),
                    {"GPUX_HOME=" + gpux_.home().string(), "HOME=" + gpux_.folder().path().string(),
                     "PATH=" + Program::file().parent_path().string() + ":" + std::getenv("PATH")});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return lines_of(result.standard_output);
  };
  EXPECT_THAT(fish_offers("ins"), ElementsAre("inspect"));
  EXPECT_THAT(fish_offers("run --non-finite "), ElementsAre("null", "string"));
  EXPECT_THAT(fish_offers("run --provider cu"), ElementsAre("cuda"));
  EXPECT_THAT(fish_offers("run ad"), ElementsAre("adder:1.0"));
  EXPECT_THAT(fish_offers("run --prov"), ElementsAre("--provider", "--provider-library", "--provider-option"));
}

}  // namespace
}  // namespace gpux::test
