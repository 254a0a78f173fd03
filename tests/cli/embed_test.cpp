#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "cli/program.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

using Vectors = std::vector<std::vector<float>>;

const std::string mean_pooling = R"({"pooling_mode_mean_tokens": true})";
constexpr std::size_t width = 16;

class Embed : public testing::Test {
 protected:
  void SetUp() override { (void)write_encoder_folder(gpux_.folder(), mean_pooling, true); }

  [[nodiscard]] Outcome embed(std::vector<std::string> arguments, Surroundings where = {}) const {
    arguments.insert(arguments.begin(), {"embed", "--model", "encoder"});
    where.folder = gpux_.folder().path();
    return gpux_.run(arguments, where);
  }

  [[nodiscard]] Vectors vectors(const std::vector<std::string>& arguments, const Surroundings& where = {}) const {
    const Outcome outcome = embed(arguments, where);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return vectors_of(outcome.out);
  }

  static Vectors vectors_of(const std::string& lines) {
    Vectors vectors;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) vectors.push_back(Json::parse(line)["vector"]);
    return vectors;
  }

  [[nodiscard]] std::string content(const std::string& file) const { return content_of(gpux_.folder().path() / file); }

  Program gpux_;
};

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

std::vector<float> joined(const Vectors& vectors) {
  std::vector<float> all;
  for (const auto& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());
  return all;
}

double length_of(const std::vector<float>& vector) {
  double squares = 0;
  for (const float element : vector) squares += double{element} * double{element};
  return std::sqrt(squares);
}

TEST_F(Embed, PrintsALineForEachText) {
  const Outcome outcome = embed({"the model", "runs"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line;
  std::size_t count = 0;
  for (; std::getline(lines, line); ++count) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json["model"], "encoder");
    EXPECT_EQ(json["digest"], "sha256:" + sha256_of(content("encoder/onnx/model.onnx")));
    EXPECT_EQ(json["dimension"], width);
    EXPECT_TRUE(json.contains("level") && json["level"].is_null());
    EXPECT_EQ(json["vector"].size(), width);
    EXPECT_NEAR(length_of(json["vector"]), 1, 1e-6);
  }
  EXPECT_EQ(count, 2U);
  EXPECT_THAT(outcome.err, MatchesRegex("gpux: ran on cpu [^\n]*\ngpux: embedded 2 texts in [^\n]* a second\n"));
  EXPECT_EQ(embed({"-q", "the model"}).err, "");
}

TEST_F(Embed, TakesTextsFromArgumentsFilesAndStandardInputInTheirOrder) {
  const Vectors each = vectors({"one", "", "two lines", "run"});
  ASSERT_EQ(each.size(), 4U);
  gpux_.folder().write("lines.txt", "one\n\ntwo lines\r\nrun");
  gpux_.folder().write("items.jsonl",
                       "{\"id\": 1, \"text\": \"one\"}\n{\"text\": \"\"}\n\n"
                       "{\"text\": \"two lines\"}\n{\"text\": \"r\\u0075n\"}\n");
  const Surroundings lines{.standard_input = "one\n\ntwo lines\nrun\n"};
  EXPECT_EQ(vectors({"@lines.txt"}), each);
  EXPECT_EQ(vectors({"-"}, lines), each);
  EXPECT_EQ(vectors({}, lines), each);
  EXPECT_EQ(vectors({"--field", "text", "@items.jsonl"}), each);
  EXPECT_EQ(vectors({"--field", "text"}, {.standard_input = content("items.jsonl")}), each);
  EXPECT_EQ(vectors({"one", "-", "run"}, {.standard_input = "\ntwo lines\n"}), each);
  EXPECT_EQ(vectors({"--", "-5"}), vectors({}, {.standard_input = "-5\n"}));
  EXPECT_EQ(vectors({}, {.standard_input = ""}), Vectors());
}

TEST_F(Embed, DoesNotWaitForATerminal) {
  const Outcome outcome = embed({}, {.terminal = true});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("give texts, @FILE, or -"));
}

TEST_F(Embed, GivesTheSameBitsHoweverManyAreAtWork) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += std::string(static_cast<std::size_t>(i % 40), 'a') + " line\n";
  const std::string one = embed({"--workers", "1"}, {.standard_input = lines}).out;
  EXPECT_EQ(vectors_of(one).size(), 200U);
  EXPECT_EQ(embed({"--workers", "4"}, {.standard_input = lines}).out, one);
}

TEST_F(Embed, WritesFiles) {
  const std::vector<float> expected = joined(vectors({"one", "two", "three"}));
  const Outcome printed = embed({"one", "two", "three"});
  for (const char* file : {"v.jsonl", "v.npy", "deeper/v.f32"}) {
    const Outcome outcome = embed({"one", "two", "three", "-o", file});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(std::string("wrote ") + file));
  }
  EXPECT_EQ(content("v.jsonl"), printed.out);
  EXPECT_EQ(floats_of(content("deeper/v.f32")), expected);
  const std::string npy = content("v.npy");
  EXPECT_THAT(npy.substr(10, 118), testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 16), }"));
  EXPECT_EQ(npy.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(floats_of(npy.substr(128)), expected);

  ASSERT_EQ(embed({"-o", "none.npy"}, {.standard_input = ""}).code, 0);
  EXPECT_THAT(content("none.npy"), HasSubstr("'shape': (0, 16)"));
}

TEST_F(Embed, LeavesAFileAsItIsWhereItFails) {
  gpux_.folder().write("v.npy", "before");
  gpux_.folder().write("items.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
  EXPECT_EQ(embed({"--field", "text", "@items.jsonl", "-o", "v.npy"}).code, 6);
  EXPECT_EQ(content("v.npy"), "before");
  for (const auto& entry : fs::directory_iterator(gpux_.folder().path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".part."))) << "left behind";
  }
}

TEST_F(Embed, CutsAndNormalizesAsAsked) {
  const std::vector<float> plain = vectors({"--no-normalize", "the model"}).front();
  EXPECT_GT(std::abs(length_of(plain) - 1), 0.1);
  const std::vector<float> cut = vectors({"--dimensions", "5", "the model"}).front();
  ASSERT_EQ(cut.size(), 5U);
  EXPECT_NEAR(length_of(cut), 1, 1e-6);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(cut[i] / cut[0], plain[i] / plain[0], 1e-5);
  EXPECT_EQ(Json::parse(embed({"--dimensions", "5", "the model"}).out)["dimension"], 5);

  (void)write_encoder_folder(gpux_.folder(), mean_pooling, false);
  fs::remove(gpux_.folder().path() / "encoder/2_Normalize");
  EXPECT_EQ(vectors({"the model"}).front(), plain);
  EXPECT_NEAR(length_of(vectors({"--normalize", "the model"}).front()), 1, 1e-6);
}

TEST_F(Embed, PutsPromptsBeforeTexts) {
  const Vectors whole = vectors({"the question: what runs"});
  EXPECT_EQ(vectors({"--prompt", "query", "what runs"}), whole);
  EXPECT_EQ(vectors({"--prompt-text", "the question: ", "what runs"}), whole);
  const Vectors bare = vectors({"what runs"});
  EXPECT_NE(bare, whole);
  EXPECT_EQ(vectors({"--prompt", "document", "what runs"}), bare);
  gpux_.folder().write("encoder/config_sentence_transformers.json",
                       R"({"prompts": {"query": "the question: "}, "default_prompt_name": "query"})");
  EXPECT_EQ(vectors({"what runs"}), whole);
  EXPECT_EQ(vectors({"--prompt-text", "", "what runs"}), bare);
}

TEST_F(Embed, CutsLongTexts) {
  EXPECT_EQ(vectors({"--max-tokens", "4", "the model runs"}), vectors({"the model"}));
  EXPECT_NE(vectors({"the model runs"}), vectors({"the model"}));
}

TEST_F(Embed, RefusesInOneLine) {
  gpux_.folder().write("items.jsonl", "{\"text\": \"one\"}\n{\"other\": 2}\n");
  gpux_.folder().write("no.jsonl", "one\n");
  gpux_.folder().write("empty/other.txt", "");

  struct {
    std::vector<std::string> arguments;
    int code;
    const char* words;
  } const cases[]{
      {{"embed", "a"}, 2, "embed: give --model"},
      {{"embed", "--model", "minilm", "a"}, 7, "no model 'minilm:latest' is stored here"},
      {{"embed", "--model", "items.jsonl", "a"}, 2, "embed takes a folder"},
      {{"embed", "--model", "empty", "a"}, 7, "looked for tokenizer.json"},
      {{"embed", "--model", "encoder", "--table", "a"}, 2, "--table"},
      {{"embed", "--model", "encoder", "--dimensions", "17", "a"}, 2, "1 to the model's 16"},
      {{"embed", "--model", "encoder", "--dimensions", "0", "a"}, 2, "--dimensions"},
      {{"embed", "--model", "encoder", "--max-tokens", "33", "a"}, 2, "at most the model's 32"},
      {{"embed", "--model", "encoder", "--max-tokens", "2", "a"}, 2, "3 or more"},
      {{"embed", "--model", "encoder", "--workers", "0", "a"}, 2, "--workers"},
      {{"embed", "--model", "encoder", "--threads", "0", "a"}, 2, "--threads"},
      {{"embed", "--model", "encoder", "--prompt", "quest", "a"}, 2, "accepted: query, document"},
      {{"embed", "--model", "encoder", "--prompt", "query", "--prompt-text", "b", "a"}, 2, "--prompt-text"},
      {{"embed", "--model", "encoder", "-o", "v.json", "a"}, 2, ".jsonl, .npy, .f32"},
      {{"embed", "--model", "encoder", "--field", "text", "a"}, 2, "--field"},
      {{"embed", "--model", "encoder", "--provider", "cudda", "a"}, 2, "cudda"},
      {{"embed", "--model", "encoder", "@none.txt"}, 7, "none.txt"},
      {{"embed", "--model", "encoder", "@empty"}, 13, "empty"},
      {{"embed", "--model", "encoder", "--field", "text", "@items.jsonl", "-o", "v.npy"},
       6,
       "items.jsonl:2: there is no"},
      {{"embed", "--model", "encoder", "--field", "text", "@no.jsonl"}, 6, "no.jsonl:1: is not JSON"},
  };

  for (const auto& [arguments, code, words] : cases) {
    std::vector<std::string> quiet = arguments;
    quiet.emplace_back("-q");
    const Outcome outcome = gpux_.run(quiet, {.folder = gpux_.folder().path()});
    EXPECT_EQ(outcome.code, code) << testing::PrintToString(arguments) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  gpux_.folder().write("encoder/1_Pooling/config.json", "{");
  EXPECT_EQ(embed({"a"}).code, 4);
  EXPECT_THAT(embed({"a"}).err, HasSubstr("1_Pooling/config.json: is not JSON"));
}

TEST_F(Embed, TakesWhatImportPutIntoTheStore) {
  const std::string folder = (gpux_.folder().path() / "encoder").string();
  const Vectors expected = vectors({"a sentence", "another"});
  const Outcome imported = gpux_.run({"import", folder, "-t", "words/mini:2.0", "-t", "mini", "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Json said = imported.json();
  EXPECT_EQ(said.at("names"), Json::parse(R"(["words/mini:2.0", "mini:latest"])"));
  EXPECT_EQ(said.at("dimension"), width);
  // The folder may go: the store has all that is needed.
  fs::remove_all(folder);
  for (const char* name : {"mini", "words/mini:2.0"}) {
    const Outcome outcome = gpux_.run({"embed", "--model", name, "a sentence", "another"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(vectors_of(outcome.out), expected);
  }
  EXPECT_THAT(gpux_.run({"embed", "--model", "mini", "--prompt", "query", "a"}).err, Not(HasSubstr("--prompt")));
  const Outcome unknown = gpux_.run({"embed", "--model", "mino", "a"});
  EXPECT_EQ(unknown.code, 7);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'mini:latest'?"));
  const Outcome without = gpux_.run({"embed", "--model", model("add.onnx"), "a"});
  EXPECT_THAT(without.err, HasSubstr("has no tokenizer.json beside its ONNX file"));
  EXPECT_EQ(gpux_.run({"import", "encoder"}).code, 2);
}

}  // namespace
}  // namespace gpux::test
