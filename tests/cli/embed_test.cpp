#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/sha256.h"
#include "cli/program.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;

using Strings = std::vector<std::string>;
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

  // Names of what is neither written for good nor the test's.
  [[nodiscard]] Strings leftovers() const {
    Strings names;
    for (const auto& entry : fs::directory_iterator(gpux_.folder().path())) {
      const std::string name = entry.path().filename();
      if (name.find(".part") != std::string::npos) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Starts embed, and kills it once that is so; or waits for its end, if it comes first.
  void kill_when(const Strings& arguments, const std::function<bool()>& so) const {
    Strings words{Program::file(), "embed", "--model", "encoder", "-q"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string folder = gpux_.folder().path(), home = gpux_.home();
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("GPUX_HOME", home.c_str(), 1);
      if (::chdir(folder.c_str()) == 0) ::execv(pointers.front(), pointers.data());
      ::_exit(127);
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (so()) ::kill(child, SIGKILL);
    }
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
  }

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

std::string bytes_of_base64(const std::string& text) {
  std::string bytes;
  unsigned held = 0, bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    held = held << 6U | static_cast<unsigned>(alphabet.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 0xffU);
  }
  return bytes;
}

std::size_t size_of(const fs::path& file) {
  std::error_code none;
  const auto size = fs::file_size(file, none);
  return none ? 0 : size;
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
  EXPECT_THAT(outcome.err, MatchesRegex("gpux: ran on cpu [^\n]*\ngpux: embedded 2 texts in [^\n]* texts/s\n"));
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
  gpux_.folder().write("items.csv", "id,text\r\n1,one\r\n2,\r\n3,\"two lines\"\r\n4,run\r\n");
  EXPECT_EQ(vectors({"--column", "text", "@items.csv"}), each);
  EXPECT_EQ(vectors({"--column", "text"}, {.standard_input = content("items.csv")}), each);
  gpux_.folder().write("first.csv", "text\none\n\"\"\n");
  gpux_.folder().write("second.csv", "n,m,text\n1,2,two lines\n3,4,run");
  EXPECT_EQ(vectors({"--column", "text", "@first.csv", "@second.csv"}), each);
  gpux_.folder().write("breaks.csv", "text\n\"two\n\"\"lines\"\"\"\n");
  EXPECT_EQ(vectors({"--column", "text", "@breaks.csv"}), vectors({"two\n\"lines\""}));
  EXPECT_EQ(vectors({"one", "-", "run"}, {.standard_input = "\ntwo lines\n"}), each);
  EXPECT_EQ(vectors({"--", "-5"}), vectors({}, {.standard_input = "-5\n"}));
  EXPECT_EQ(vectors({}, {.standard_input = ""}), Vectors());
}

TEST_F(Embed, TakesItsModelAsTheFirstWordOrByFlag) {
  const Surroundings here{.folder = gpux_.folder().path()};
  const Vectors expected = vectors({"encoder", "a text"});
  for (const Strings& words :
       {Strings{"embed", "encoder", "encoder", "a text"}, Strings{"embed", "-m", "encoder", "encoder", "a text"},
        Strings{"embed", "encoder", "a text", "--model", "encoder"}}) {
    EXPECT_EQ(vectors_of(gpux_.run(words, here).out), expected);
  }
  const Outcome piped =
      gpux_.run({"embed", "encoder"}, {.folder = gpux_.folder().path(), .standard_input = "encoder\na text\n"});
  EXPECT_EQ(vectors_of(piped.out), expected);
  EXPECT_EQ(vectors({""}).size(), 1U) << "an empty text is a text";
  EXPECT_EQ(vectors({"[a, b]", "[c]"}), vectors({"-"}, {.standard_input = "[a, b]\n[c]"})) << "brackets are text";
}

TEST_F(Embed, TakesUtf8AndNothingElse) {
  using namespace std::string_literals;
  gpux_.folder().write("latin1.txt", "plain\ncaf\xe9\n");
  gpux_.folder().write("utf16.txt",
                       "\xff\xfe"
                       "h\0i\0\n\0"s);
  gpux_.folder().write("unmarked.txt", "h\0i\0\n\0"s);
  gpux_.folder().write("unmarked.csv", "\0i\0d\0\n"s);
  gpux_.folder().write("nul.txt", "one\ntwo\0three\n"s);
  gpux_.folder().write("latin1.csv", "id,text\n1,plain\n2,caf\xe9\n");
  gpux_.folder().write("utf16.csv", "\xfe\xff\0i\0d\0\n"s);
  gpux_.folder().write("latin1.jsonl", "{\"text\": \"plain\"}\n{\"text\": \"caf\xe9\"}\n");

  struct {
    Strings arguments;
    const char* standard_input;
    const char* says;
  } const cases[]{
      {{"caf\xe9"}, nullptr, "embed: the text 'caf\\xe9' is not UTF-8 at byte offset 3 (0xe9); accepted: UTF-8"},
      {{"@latin1.txt"}, nullptr, "latin1.txt:2: not UTF-8 at byte offset 9 (0xe9); accepted: UTF-8"},
      {{"@utf16.txt"}, nullptr, "utf16.txt:1: UTF-16 (little-endian) by its byte order mark; accepted: UTF-8"},
      {{"@latin1.csv", "--column", "text"}, nullptr, "latin1.csv:3: not UTF-8 at byte offset 21 (0xe9)"},
      {{"@utf16.csv", "--column", "id"}, nullptr, "utf16.csv:1: UTF-16 (big-endian) by its byte order mark"},
      {{"@unmarked.txt"},
       nullptr,
       "unmarked.txt:1: a NUL character at byte offset 1, as in UTF-16 (little-endian) without"},
      {{"@unmarked.csv", "--column", "id"},
       nullptr,
       "unmarked.csv:1: a NUL character at byte offset 0, as in UTF-16 (big-endian)"},
      {{"@nul.txt"}, nullptr, "nul.txt:2: a NUL character at byte offset 7; accepted: UTF-8"},
      {{"@latin1.jsonl", "--field", "text"}, nullptr, "latin1.jsonl:2: not UTF-8 at byte offset 31 (0xe9)"},
      {{"-"}, "a\nb\ncaf\xe9", "standard input:3: not UTF-8 at byte offset 7 (0xe9)"},
      {{"a", "--prompt-text", "caf\xe9 "}, nullptr, "--prompt-text is not UTF-8 at byte offset 3 (0xe9)"},
  };

  for (const auto& each : cases) {
    Surroundings where;
    if (each.standard_input != nullptr) where.standard_input = each.standard_input;
    const Outcome outcome = embed(each.arguments, where);
    EXPECT_EQ(outcome.code, 6) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(each.says));
  }
  // JSON may name the character; it is the tokenizer's, and this one drops it.
  gpux_.folder().write("escaped.jsonl", "{\"text\": \"a\\u0000 text\"}\n");
  EXPECT_EQ(vectors({"@escaped.jsonl", "--field", "text"}), vectors({"a text"}));
  // UTF-8's own mark is no part of the first text.
  EXPECT_EQ(vectors({"-"}, {.standard_input = "\xef\xbb\xbf"
                                              "a text\nb"}),
            vectors({"a text", "b"}));
}

TEST_F(Embed, TakesNoFilesNameForAText) {
  gpux_.folder().write("lines.txt", "the model runs\n");
  for (const Strings& arguments : {Strings{"lines.txt"}, Strings{"a text", "./lines.txt"}}) {
    const Outcome outcome = embed(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("embed: '" + arguments.back() + "' is a file: write '@" + arguments.back()));
    EXPECT_EQ(outcome.out, "");
  }
  // A folder's name is a word like any other, and on standard input there are no names.
  EXPECT_EQ(vectors({"encoder"}).size(), 1U);
  EXPECT_EQ(embed({}, {.standard_input = "lines.txt\n"}).code, 0);
  EXPECT_EQ(vectors({"@lines.txt"}), vectors({"the model runs"}));
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
  gpux_.folder().write("items.jsonl", "{\"text\": 2}\n");
  EXPECT_EQ(embed({"--field", "text", "@items.jsonl", "-o", "v.npy"}).code, 6);
  EXPECT_EQ(content("v.npy"), "before");
  EXPECT_EQ(leftovers(), Strings());

  // What was done can be gone on with, once the text is right.
  gpux_.folder().write("items.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
  EXPECT_EQ(embed({"--field", "text", "@items.jsonl", "-o", "v.npy"}).code, 6);
  EXPECT_EQ(content("v.npy"), "before");
  EXPECT_EQ(leftovers(), Strings({"v.npy.part", "v.npy.part.json"}));
  gpux_.folder().write("items.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const Outcome resumed = embed({"--field", "text", "@items.jsonl", "-o", "v.npy", "--resume"});
  EXPECT_THAT(resumed.err, HasSubstr("embedded 1 text behind 1 that were there in"));
  EXPECT_EQ(leftovers(), Strings());
  EXPECT_EQ(floats_of(content("v.npy").substr(128)), joined(vectors({"one", "two"})));
}

struct ResumedFile {
  std::string file;
  Strings flags = {};
};

const ResumedFile resumed_files[]{{"v.jsonl"},
                                  {"v.npy"},
                                  {"v.f32"},
                                  {"v.jsonl", {"--encoding", "int8"}},
                                  {"v.npy", {"--encoding", "int8", "--dimensions", "5"}},
                                  {"v.npy", {"--encoding", "binary"}},
                                  {"v.jsonl", {"--encoding", "base64"}}};

TEST_F(Embed, ResumesAfterTheLastCompleteVector) {
  const std::string first = "{\"text\": \"one\"}\n";
  std::string lines = first;
  for (std::size_t i = 0; i < 20; ++i) lines += "{\"text\": \"line " + std::string(i, 'a') + "\"}\n";

  for (const auto& [file, flags] : resumed_files) {
    SCOPED_TRACE(file + " " + testing::PrintToString(flags));
    const auto call = [&, &file = file, &flags = flags](const Strings& more) {
      Strings words = flags;
      words.insert(words.end(), {"--field", "text", "@items.jsonl", "-o", file});
      words.insert(words.end(), more.begin(), more.end());
      return embed(words);
    };
    // A call that fails behind its first text leaves what it was begun with.
    gpux_.folder().write("items.jsonl", first + "{}\n");
    EXPECT_EQ(call({}).code, 6);
    const std::string begun_with = content(file + ".part.json");
    gpux_.folder().write("items.jsonl", lines);
    ASSERT_EQ(call({"--resume"}).code, 0);
    const std::string whole = content(file);
    ASSERT_EQ(call({}).code, 0);
    ASSERT_EQ(content(file), whole);

    for (std::size_t size = 0; size <= whole.size(); size += whole.size() / 3) {
      gpux_.folder().write(file + ".part", whole.substr(0, size));
      gpux_.folder().write(file + ".part.json", begun_with);
      const Outcome resumed = call({"--resume"});
      EXPECT_EQ(resumed.code, 0) << resumed.err;
      EXPECT_EQ(content(file), whole) << "behind " << size << " bytes";
      EXPECT_EQ(leftovers(), Strings());
    }
    // Without the flag it is begun anew, whatever is there.
    gpux_.folder().write(file + ".part", whole + whole + "more");
    EXPECT_EQ(call({}).code, 0);
    EXPECT_EQ(content(file), whole);
    EXPECT_EQ(leftovers(), Strings());
  }
}

TEST_F(Embed, LosesAndRepeatsNothingWhereItIsKilled) {
  std::string lines;
  for (int i = 0; i < 6000; ++i) lines += "line " + std::to_string(i) + " of the model\n";
  gpux_.folder().write("lines.txt", lines);
  std::mt19937 random(20);  // NOLINT: the same points each time, as far as the machine allows
  for (const char* file : {"v.jsonl", "v.npy", "v.f32"}) {
    ASSERT_EQ(embed({"@lines.txt", "-o", "expected/" + std::string(file)}).code, 0);
    const std::string expected = content("expected/" + std::string(file));
    const fs::path part = gpux_.folder().path() / (std::string(file) + ".part");
    std::size_t left = 0;
    for (int i = 0; i < 4; ++i) {
      const std::size_t until = left + random() % ((expected.size() - left) / 2 + 1);
      kill_when({"@lines.txt", "-o", file, "--resume"}, [&] { return size_of(part) > until; });
      if (!fs::exists(part)) break;  // it was done before it could be killed
      EXPECT_GT(size_of(part), until);
      left = size_of(part);
    }
    EXPECT_GT(left, 0U) << "was never killed";
    const Outcome resumed = embed({"@lines.txt", "-o", file, "--resume"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_TRUE(content(file) == expected) << file;
    EXPECT_EQ(leftovers(), Strings());
  }
}

TEST_F(Embed, ResumesOnlyWhatItWouldHaveBegun) {
  gpux_.folder().write("items.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{}\n");
  const Strings call{"--field", "text", "@items.jsonl", "-o", "v.jsonl"};
  const auto resumed = [&](Strings more) {
    more.insert(more.begin(), call.begin(), call.end());
    more.emplace_back("--resume");
    return embed(more);
  };
  ASSERT_EQ(embed(call).code, 6);
  const std::string part = content("v.jsonl.part");

  struct {
    Strings flags;
    const char* words;
  } const cases[]{
      {{"--dimensions", "5"}, "was begun with dimension 16, now it is 5"},
      {{"--encoding", "int8"}, "was begun with encoding \"float\", now it is \"int8\""},
      {{"--no-normalize"}, "was begun with normalize null, now it is false"},
      {{"--prompt", "query"}, "was begun with prompt \"\", now it is \"the question: \""},
      {{"--max-tokens", "5"}, "was begun with max_tokens 0, now it is 5"},
      {{"-"}, "was begun with texts [\"@items.jsonl\"], now it is"},
  };

  for (const auto& [flags, words] : cases) {
    const Outcome outcome = resumed(flags);
    EXPECT_EQ(outcome.code, 6);
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_THAT(outcome.err, HasSubstr("--resume: 'v.jsonl.part'"));
    EXPECT_EQ(content("v.jsonl.part"), part) << "touched";
  }
  gpux_.folder().write("items.jsonl", "{\"text\": \"one\"}\n");
  EXPECT_THAT(resumed({}).err, HasSubstr("'v.jsonl.part' has 2 vectors; the input has 1 text"));
  (void)write_encoder_folder(gpux_.folder(), mean_pooling, true, "encoder_variant.onnx");
  EXPECT_THAT(resumed({}).err, HasSubstr("was begun with digest"));
  fs::remove(gpux_.folder().path() / "v.jsonl.part.json");
  EXPECT_THAT(resumed({}).err, HasSubstr("'v.jsonl.part.json', which says how it was begun, cannot be read"));
  EXPECT_EQ(content("v.jsonl.part"), part);
}

TEST_F(Embed, EncodesVectorsAsAsked) {
  const Strings texts{"one", "two", "the model runs"};
  const auto lines_of = [&](const std::string& encoding) {
    Strings words{"--encoding", encoding};
    words.insert(words.end(), texts.begin(), texts.end());
    const Outcome outcome = embed(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<Json> lines;
    std::istringstream stream(outcome.out);
    for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
    return lines;
  };
  const Vectors plain = vectors(texts);
  const auto whole = lines_of("float"), levels = lines_of("int8"), bits = lines_of("binary"),
             packed = lines_of("base64");
  std::string all_levels, all_bits;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(whole[i]["vector"].get<std::vector<float>>(), plain[i]);
    EXPECT_FALSE(whole[i].contains("encoding"));
    for (const auto* line : {&levels[i], &bits[i], &packed[i]}) EXPECT_EQ((*line)["dimension"], width);

    EXPECT_EQ(levels[i]["encoding"], "int8");
    const auto scale = levels[i]["scale"].get<float>();
    float most = 0;
    for (std::size_t k = 0; k < width; ++k) {
      const int level = levels[i]["vector"][k];
      EXPECT_NEAR(static_cast<float>(level) * scale, plain[i][k], scale * 0.5001F);
      all_levels += static_cast<char>(level);
      most = std::max(most, std::abs(plain[i][k]));
    }
    EXPECT_EQ(scale, most / 127);

    EXPECT_EQ(bits[i]["encoding"], "binary");
    ASSERT_EQ(bits[i]["vector"].size(), width / 8);
    for (std::size_t k = 0; k < width; ++k) {
      const unsigned byte = bits[i]["vector"][k / 8];
      EXPECT_EQ((byte >> (7 - k % 8)) & 1U, plain[i][k] > 0 ? 1U : 0U);
      if (k % 8 == 0) all_bits += static_cast<char>(byte);
    }

    EXPECT_EQ(packed[i]["encoding"], "base64");
    const std::string text = packed[i]["vector"];
    EXPECT_EQ(floats_of(bytes_of_base64(text)), plain[i]);
  }

  struct {
    const char* encoding;
    const char* head;
    const std::string& elements;
  } const arrays[]{{"int8", "{'descr': '|i1', 'fortran_order': False, 'shape': (3, 16), }", all_levels},
                   {"binary", "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", all_bits}};

  for (const auto& each : arrays) {
    Strings words{"--encoding", each.encoding, "-o", "v.npy"};
    words.insert(words.end(), texts.begin(), texts.end());
    ASSERT_EQ(embed(words).code, 0);
    EXPECT_THAT(content("v.npy").substr(10), testing::StartsWith(each.head));
    EXPECT_EQ(content("v.npy").substr(128), each.elements);
  }
}

TEST_F(Embed, WritesDocumentsOfTheirOwn) {
  const Vectors plain = vectors({"one", "", "say \"two\"\n"});
  ASSERT_EQ(embed({"one", "", "say \"two\"\n", "one", "-o", "vectors/"}).code, 0);
  std::size_t index = 0;
  for (const std::string text : {"one", "", "say \"two\"\n"}) {
    const Json document = Json::parse(content("vectors/" + sha256_of(text) + ".vec"));
    EXPECT_EQ(document["hash"], sha256_of(text));
    EXPECT_EQ(document["vector"].get<std::vector<float>>(), plain[index++]);
    const Json metadata{{"model", "encoder"},
                        {"digest", "sha256:" + sha256_of(content("encoder/onnx/model.onnx"))},
                        {"dimension", width},
                        {"level", nullptr},
                        {"text", text}};
    EXPECT_EQ(document["metadata"], metadata);
    EXPECT_EQ(document.size(), 3U);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(gpux_.folder().path() / "vectors"), {}), 3);

  // A folder that is there needs no slash.
  ASSERT_EQ(embed({"two", "-o", "vectors", "--encoding", "int8"}).code, 0);
  const Json levels = Json::parse(content("vectors/" + sha256_of("two") + ".vec"));
  EXPECT_EQ(levels["metadata"]["encoding"], "int8");
  EXPECT_GT(levels["metadata"]["scale"], 0);

  ASSERT_EQ(embed({"one", "-o", "one.vec"}).code, 0);
  EXPECT_EQ(content("one.vec"), content("vectors/" + sha256_of("one") + ".vec"));
  const Outcome two = embed({"one", "two", "-o", "two.vec", "-q"});
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.err, HasSubstr("--output 'two.vec' holds one vector"));
  EXPECT_EQ(embed({"-o", "two.vec"}, {.standard_input = ""}).code, 6);
  EXPECT_FALSE(fs::exists(gpux_.folder().path() / "two.vec"));
}

TEST_F(Embed, ShowsHowFarItIsOnATerminalOnly) {
  // A pipe, whose size is not known, and that has its second text only long after the first is written.
  const std::string slowly =
      "{ echo one; while [ ! -s v.jsonl.part ]; do sleep 0.05; done; sleep 0.3; echo two; echo three; }";
  const auto shown = [&](const std::string& call, const std::string& source) {
    const std::string line = source + " | '" + Program::file().string() + "' embed --model encoder -o v.jsonl" + call;
    const std::string folder = gpux_.folder().path();
    const ProcessResult result = run_process({"env", "-C", folder, "script", "-qec", line, "/dev/null"},
                                             std::chrono::seconds(60), {"GPUX_HOME=" + gpux_.home().string()});
    EXPECT_EQ(result.exit_code, 0) << result.standard_output;
    return result.standard_output;
  };
  EXPECT_THAT(shown("", slowly), HasSubstr("\r2 texts, "));
  EXPECT_THAT(shown("", slowly), HasSubstr("\r\033[Kgpux: embedded 3 texts"));
  EXPECT_EQ(shown(" -q", slowly), "");
  EXPECT_THAT(shown(" 2>errors", slowly), testing::Not(HasSubstr("\r2 texts")));
  EXPECT_THAT(content("errors"), testing::Not(HasSubstr("\r")));

  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += "a line of the text that is long enough\n";
  gpux_.folder().write("lines.txt", lines);
  EXPECT_THAT(shown(" @lines.txt", "true"), testing::ContainsRegex("\r[0-9]+ texts, [0-9.]+/s, [0-9:]+ left"));
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
  const std::vector<float> again = vectors({"--dimensions", "5", "the model"}).front();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(again[i], cut[i], 1e-6);
  EXPECT_EQ(vectors({"--dimensions", "5", "--no-normalize", "the model"}).front(),
            std::vector<float>(plain.begin(), plain.begin() + 5));
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
  gpux_.folder().write("lines.txt", "");
  gpux_.folder().write("some.csv", "id,title\n1,a\n2\n");
  gpux_.folder().write("twice.csv", "a,a\n");
  gpux_.folder().write("quotes.csv", "a\n\"b");

  struct {
    std::vector<std::string> arguments;
    int code;
    const char* words;
  } const cases[]{
      {{"embed"}, 2, "give the model, as the first word or with -m"},
      {{"embed", "a"}, 7, "the first word is the model, unless -m or --level names it"},
      {{"embed", "a sentence", "b"}, 2, "the first word is the model, unless -m or --level names it"},
      {{"embed", "--model", "minilm", "a"}, 7, "no model 'minilm:latest' is stored here"},
      {{"embed", "--model", "items.jsonl", "a"}, 2, "is no model: accepted are"},
      {{"embed", "--model", "empty", "a"}, 7, "looked for tokenizer.json"},
      {{"embed", "--model", "encoder", "--table", "a"}, 2, "--table"},
      {{"embed", "--model", "encoder", "--dimensions", "17", "a"}, 2, "1 to the model's 16"},
      {{"embed", "--model", "encoder", "--dimensions", "0", "a"}, 2, "--dimensions"},
      {{"embed", "--model", "encoder", "--max-tokens", "33", "a"}, 2, "at most the model's 32"},
      {{"embed", "--model", "encoder", "--max-tokens", "2", "a"}, 2, "3 or more"},
      {{"embed", "--model", "encoder", "--workers", "0", "a"}, 2, "--workers"},
      {{"embed", "--model", "encoder", "--threads", "0", "a"}, 2, "--threads"},
      {{"embed", "--model", "encoder", "--prompt", "quest", "a"}, 2, "accepted: document, query"},
      {{"embed", "--model", "encoder", "--prompt", "query", "--prompt-text", "b", "a"}, 2, "--prompt-text"},
      {{"embed", "--model", "encoder", "-o", "v.json", "a"}, 2, ".jsonl, .npy, .f32, .vec"},
      {{"embed", "--model", "encoder", "--encoding", "int4", "a"}, 2, "--encoding"},
      {{"embed", "--model", "encoder", "--encoding", "int8", "-o", "v.f32", "a"},
       2,
       "--encoding int8 with --output 'v.f32'"},
      {{"embed", "--model", "encoder", "--encoding", "base64", "-o", "v.npy", "a"},
       2,
       "--encoding base64 with --output 'v.npy'"},
      {{"embed", "--model", "encoder", "--resume", "a"}, 2, "--resume continues a file"},
      {{"embed", "--model", "encoder", "--resume", "-o", "v.vec", "a"}, 2, "--resume with --output 'v.vec'"},
      {{"embed", "--model", "encoder", "--resume", "-o", "v/", "a"}, 2, "--resume with --output 'v/'"},
      {{"embed", "--model", "encoder", "--field", "text", "a"}, 2, "--field"},
      {{"embed", "--model", "encoder", "--provider", "cudda", "a"}, 2, "cudda"},
      {{"embed", "--model", "encoder", "@none.txt"}, 7, "none.txt"},
      {{"embed", "--model", "encoder", "@empty"}, 7, "empty"},
      {{"embed", "--model", "encoder", "--field", "text", "@items.jsonl", "-o", "v.npy"},
       6,
       "items.jsonl:2: there is no"},
      {{"embed", "--model", "encoder", "--field", "text", "@no.jsonl"}, 6, "no.jsonl:1: is not JSON"},
      {{"embed", "--model", "encoder", "--column", "text", "a"}, 2, "--column"},
      {{"embed", "--model", "encoder", "--column", "a", "--field", "a", "@some.csv"}, 2, "--column"},
      {{"embed", "--model", "encoder", "--column", "text", "@some.csv"},
       6,
       "some.csv:1: there is no column 'text'; the header has id, title"},
      {{"embed", "--model", "encoder", "--column", "title", "@some.csv", "-o", "v.npy"},
       6,
       "some.csv:3: 1 fields, the header has 2"},
      {{"embed", "--model", "encoder", "--column", "a", "@twice.csv"}, 6, "twice.csv:1: there are two columns 'a'"},
      {{"embed", "--model", "encoder", "--column", "a", "@quotes.csv"}, 6, "quotes.csv:2: a quote opens here"},
      {{"embed", "--model", "encoder", "--column", "a", "@lines.txt"},
       6,
       "lines.txt:1: --column 'a': there is no header"},
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
  EXPECT_THAT(without.err, HasSubstr("has no tokenizer.json next to its ONNX file"));
  EXPECT_EQ(gpux_.run({"import", "encoder"}).code, 2);
}

}  // namespace
}  // namespace gpux::test
