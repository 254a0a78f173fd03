// Command lines of the documents that users come with: each works as typed, or the answer names what replaced it.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"

namespace gpux::test {
namespace {

using ::testing::HasSubstr;

struct Line {
  std::string line;
  int code = 0;
  std::string words = {};  ///< in what is said to people
};

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : line) {
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == ' ' && quote == 0) {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

// A folder as the documents' users have one, and a stored model "model-name".
class Documents : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = program_.folder().path();
    write_file_atomically(folder / "model.onnx", read_file(model("add.onnx")));
    write_file_atomically(folder / "gpux.yml",
                          "name: model-name\nversion: 1.0.0\nmodel:\n  source: ./model.onnx\n  format: onnx\n"
                          "inputs:\n  x:\n    type: float32\n    shape: [null, 3]\n    required: true\n"
                          "outputs:\n  y:\n    type: float32\n    labels: [a, b, c]\n"
                          "runtime:\n  gpu:\n    memory: 2GB\n    backend: auto\n");
    write_file_atomically(folder / "input.json", R"({"x": [[1, 2, 3]]})");
    write_file_atomically(folder / "batch.json", R"([{"x": [[1, 2, 3]]}, {"x": [[4, 5, 6]]}])");
    ASSERT_EQ(run("build .").code, 0);
  }

  [[nodiscard]] Outcome run(const std::string& line) const {
    return program_.run(words_of(line), {.environment = {}, .folder = program_.folder().path(), .standard_input = {}});
  }

  Program program_;
};

TEST_F(Documents, WorkAsTypedOrNameWhatReplacedThem) {
  const std::vector<Line> lines{
      {"build ."},
      {"build . --provider cuda", 0, "cuda"},
      {"build . --provider tensorrt", 0, "tensorrt"},
      {"build . --provider cpu"},
      {"build . -p cpu -c gpux.yml --no-optimize --verbose"},
      {"build . --config gpux.yml --optimize"},
      {"run model-name --input '{\"x\": [[1, 2, 3]]}'", 0, "ran on cpu"},
      {"run model-name --input @input.json"},
      {"run model-name --file input.json"},
      {"run model-name -f batch.json"},
      {"run model-name -i @input.json -o output.json"},
      {"run model-name --input @input.json --provider cuda", 0, "not cuda"},
      {"run model-name --input @input.json --provider rocm", 0, "migraphx"},
      {"run model-name --benchmark --runs 10"},
      {"run model-name --benchmark --runs 10 --warmup 2"},
      {"run model-name --input @input.json --benchmark --runs 10 --output result.json"},
      {"run . --input @input.json"},
      {"run ./model.onnx --input @input.json"},
      {"inspect model-name"},
      {"inspect model-name --json"},
      {"inspect model-name --json-output"},
      {"inspect --model model.onnx"},
      {"inspect -m model.onnx"},
      {"inspect"},
      {"inspect --json"},
      {"--version"},
      {"version"},
      {"list"},
      {"--help"},
      {"run --help"},
      // each flag of each command, as the inventory of those documents has them
      {"--verbose inspect"},
      {"--no-verbose inspect"},
      {"--no-version inspect", 2, "leave it out"},
      {"build"},
      {"build . -c gpux.yml --no-verbose"},
      {"run model-name -i @input.json -c gpux.yml -p cpu --no-benchmark --verbose"},
      {"run model-name -i @input.json --no-verbose"},
      {"run model-name --input @input.json --file input.json", 6, "given twice"},
      {"run model-name --benchmark --no-verbose --runs 2 --warmup 1 -o result.json"},
      {"inspect model-name -c gpux.yml"},
      {"inspect . -c gpux.yml --no-json-output --no-verbose"},
      {"inspect --json-output --verbose"},
      {"inspect -m model.onnx --json-output"},
      // what it serves: serve_test.cpp
      {"serve --help"},
      {"pull microsoft/DialoGPT-small", 7, "GPUX_OFFLINE forbids it"},
      {"pull distilbert-base-uncased-finetuned-sst-2-english --registry huggingface", 2, "--registry"},
      {"pull a/b -r hf --revision main --cache-dir cache --force -v", 2, "gpux pull --help"},
      {"pull a/b -f --token secret --rev main --provider cuda --verbose", 2, "gpux pull --help"},
      {"run hf:microsoft/resnet-50 -i @input.json", 7, "GPUX_OFFLINE forbids it"},
      {"run model-name -i @input.json --revision main", 2, "its tag, NAME:TAG"},
      {"run model-name -i @input.json --json-output", 2, "use --json"},
      {"run model-name --text hello", 2, "takes token ids"},
      {"run model-name --interactive", 2, "--input - reads standard input"},
      {"search bert", 2, "gpux images"},
      {"info model-name", 2, "gpux inspect"},
      {"remove model-name", 2, "gpux rm"},
      {"login", 2, "REGISTRY is required"},
      {"registries", 2, "gpux login"},
      {"push model-name", 2, "names no registry"},
      {"init", 2, "gpux schema"},
      {"validate", 2, "gpux inspect"},
      {"benchmark model-name", 2, "gpux bench"},
      {"optimize model-name", 2, "gpux build --optimize"},
      {"quantize model-name", 2, "gpux build --quantize int8"},
      {"convert model.pt", 2, "converts nothing"},
      {"batch model-name", 2, "a list of objects"},
      {"ps"},
      {"stop model-name", 7, "no server"},
      {"logs model-name", 7, "no server"},
      {"top", 7, "no server"},
      {"run no-such-model --input @input.json", 7, "model-name"},
      {"run model-name --input @input.json --provider vulkan", 0, "webgpu"},
      {"run model-name --input @input.json --provider cudda", 2, "did you mean 'cuda'"},
  };
  for (const Line& line : lines) {
    const Outcome outcome = run(line.line);
    EXPECT_EQ(outcome.code, line.code) << line.line << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(line.words)) << line.line;
    if (outcome.code != 0) {
      EXPECT_EQ(outcome.out, "") << line.line;
      EXPECT_TRUE(is_one_line(outcome.err)) << line.line << "\n" << outcome.err;
    }
  }
}

TEST_F(Documents, TheProviderRequestComesFromWhoSpeaksFirst) {
  const auto requested = [&](const std::string& line, std::vector<std::string> environment) {
    const Outcome outcome =
        program_.run(words_of(line + " --report report.json"),
                     {.environment = std::move(environment), .folder = program_.folder().path(), .standard_input = {}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json verdict = Json::parse(read_file(program_.folder().path() / "report.json"))["verdict"];
    return verdict["requested"].get<std::string>() + " by " + verdict["requested_from"].get<std::string>();
  };
  EXPECT_EQ(requested("run model-name -i @input.json -p cpu", {"GPUX_PROVIDER=cuda"}), "cpu by --provider");
  EXPECT_EQ(requested("run model-name -i @input.json", {"GPUX_PROVIDER=cuda"}), "cuda by GPUX_PROVIDER");
  EXPECT_EQ(requested("run model-name -i @input.json", {}), "auto by gpux.yml");
  EXPECT_EQ(requested("run model.onnx -i @input.json", {}), "auto by default");
  ASSERT_EQ(run("build . --provider tensorrt,cpu").code, 0);
  EXPECT_EQ(requested("run model-name -i @input.json", {}), "tensorrt,cpu by package");
}

TEST_F(Documents, AnUnknownProviderIsTheMistakeOfWhoeverWroteIt) {
  write_file_atomically(program_.folder().path() / "gpux.yml",
                        "name: model-name\nmodel: {source: model.onnx}\nruntime:\n  gpu: {backend: cudda}\n");
  const Outcome outcome = run("run . -i @input.json");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("gpux.yml:4:"));
  EXPECT_EQ(run("run . -i @input.json -p cpu").code, 0);
  EXPECT_EQ(run("run . -i @input.json -p cudda").code, 2);
}

TEST_F(Documents, APackageCannotSayWhereToWrite) {
  write_file_atomically(program_.folder().path() / "own.yml",
                        "name: model-name\nmodel: {source: model.onnx}\nruntime:\n  profile: profile.json\n"
                        "  providers:\n    - tensorrt: {trt_engine_cache_path: cache}\n    - cpu\n");
  const Outcome built = run("build . -c own.yml");
  EXPECT_EQ(built.code, 3);
  EXPECT_THAT(built.err, HasSubstr("own.yml:6:7: a package cannot name a place of this machine"));
  // The user's own file may, also beside a stored package.
  EXPECT_EQ(run("run . -c own.yml -i @input.json").code, 0);
  EXPECT_EQ(run("run model-name -c own.yml -i @input.json").code, 0);
  EXPECT_EQ(run("inspect model-name -c own.yml").code, 0);
}

TEST_F(Documents, NothingIsWrittenToTheFolder) {
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(program_.folder().path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = files();
  EXPECT_EQ(run("build . --optimize -t other:1").code, 0);
  EXPECT_EQ(run("run other:1 -i @input.json").code, 0);
  EXPECT_EQ(run("bench other:1 --runs 2").code, 0);
  EXPECT_EQ(run("verify .").code, 0);
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace gpux::test
