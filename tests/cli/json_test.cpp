// Standard output is data and nothing else, of every command: JSON with --json, whether it ends well or not.
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::IsEmpty;

using Words = std::vector<std::string>;

struct Failure {
  Words arguments;
  int code;
  bool prints_json = false;  ///< its outcome is data all the same: else nothing is printed
};

/// A command and how it is called.
struct Row {
  std::string command;
  std::vector<Words> successes;
  std::vector<Failure> failures;
  bool has_table = true;  ///< on a terminal, without --json
};

// In an order in which each finds in the store what it needs.
std::vector<Row> rows(const Program& gpux) {
  const std::string add = model("add.onnx"), input = R"({"x": [[1, 2, 3]]})", list = "[" + input + "]";
  const std::string none = (gpux.folder().path() / "none.onnx").string();
  const std::string bad = gpux.folder().write("bad.onnx", "no model").string();
  const std::string suite = (gpux.folder().path() / "suite").string();
  const std::string encoder = (gpux.folder().path() / "encoder").string();
  const std::string decoder = (gpux.folder().path() / "decoder").string();
  const std::string vectors = (gpux.folder().path() / "vectors.jsonl").string();
  const std::string vector = (gpux.folder().path() / "vector.npy").string();
  return {
      {"run",
       {{add, "-i", input}, {add, "-i", list}, {add, "-i", "[]"}, {add, "--benchmark", "--runs", "3"}},
       {{{none}, 7}, {{bad}, 4}, {{add}, 6}, {{add, "-i", "x=[[1]]"}, 6}, {{add, "-i", input, "-p", "cudda"}, 2}},
       false},
      // What it prints when it listens: serve_test.cpp.
      {"serve",
       {},
       {{{none}, 7}, {{bad}, 4}, {{add, add}, 2}, {{add, "--port", "none"}, 2}, {{add, "--default", "other"}, 2}}},
      // With servers: serve_models_test.cpp.
      // What it does: daemon_test.cpp.
      {"daemon", {}, {{{}, 2}, {{"--state-file", none}, 7}, {{"--state-file", bad}, 3}}},
      {"ps", {{}}, {{{"extra"}, 2}}},
      {"health", {}, {{{}, 7}, {{"none", "extra"}, 2}}},
      {"stats", {}, {{{}, 7}, {{"--interval", "0"}, 2}}},
      {"top", {}, {{{}, 7}}},
      {"logs", {}, {{{}, 7}, {{"none", "extra"}, 2}}},
      {"stop", {{"--all"}}, {{{}, 7}, {{"--all", "none"}, 2}, {{"--timeout", "soon"}, 2}}},
      {"bench",
       {{add, "--runs", "3"}, {add, "--runs", "3", "-p", "cpu", "-p", "cuda"}},
       {{{none}, 7}, {{bad}, 4}, {{add, "-p", "cudda"}, 2}, {{add, "-p", "cpu", "-p", "cuda", "--strict"}, 5, true}}},
      {"verify",
       {{add}, {"--suite", suite, "--case", "right"}},
       {{{none}, 7}, {{bad}, 4}, {{}, 2}, {{suite + "/wrong"}, 12, true}, {{"--suite", suite}, 12, true}}},
      {"inspect", {{add}, {add, "-p", "cpu"}, {}}, {{{none}, 7}, {{bad}, 4}}},
      {"build", {{add, "-t", "adder:1"}}, {{{none}, 7}, {{bad, "-t", "bad"}, 4}, {{add, "-t", "?"}, 2}}},
      // Its lines: embed_test.cpp.
      {"embed", {}, {{{}, 2}, {{"--model", none, "a"}, 7}, {{"--model", add, "a"}, 4}}},
      {"generate",
       {{decoder, "w1 w2", "--max-tokens", "3"}},
       {{{}, 2}, {{none, "a"}, 7}, {{add, "a"}, 4}, {{decoder, "a", "--top-p", "7"}, 2}}},
      {"chat",
       {{decoder, "--message", "w1 w2", "--max-tokens", "3"}},
       {{{}, 2}, {{none}, 7}, {{add}, 4}, {{decoder, "--message", "a", "--top-p", "7"}, 2}}},
      {"search",
       {{"--index", vectors, "--query-vector", vector}},
       {{{}, 2}, {{"a", "--index", none}, 2}, {{"a", "--index", encoder, "--model", none}, 7}}},
      {"import",
       {{encoder, "-o", encoder + "-made"}},
       {{{}, 2}, {{none, "-o", none}, 7}, {{suite, "-o", none}, 7}, {{encoder, "-o", suite}, 2}}},
      {"images", {{}}, {{{"extra"}, 2}}},
      {"list", {{}}, {{{"extra"}, 2}}},
      {"ls", {{}}, {{{"extra"}, 2}}},
      {"tag", {{"adder:1", "adder:2"}}, {{{"none", "other"}, 7}, {{"adder:1"}, 2}}},
      {"rm", {{"adder:2"}}, {{{"none"}, 7}, {{"adder:1", "none"}, 7}}},
      {"rmi", {}, {{{"none"}, 7}}},
      {"prune", {{}}, {{{"extra"}, 2}}},
      {"save", {{"adder:1", "-o", none + ".saved.tar"}}, {{{}, 2}, {{"none", "-o", none + ".tar"}, 7}}},
      {"load", {{"-i", none + ".saved.tar"}}, {{{}, 2}, {{"-i", none}, 7}}},
      // With servers: tests/registry/pull_test.py and tests/oci/registry_faults.py.
      {"pull", {}, {{{}, 2}}},
      {"push", {}, {{{}, 2}}},
      {"login", {}, {{{}, 2}}},
      {"logout", {}, {{{}, 2}}},
      {"hub", {}, {{{}, 2}}},
      {"providers", {{}}, {{{"extra"}, 2}}},
      {"doctor", {{}}, {{{"extra"}, 2}}},
      {"schema", {{}}, {{{"extra"}, 2}}, false},
      {"completion", {{"bash"}, {"zsh"}, {"fish"}, {"--names"}}, {{{}, 2}, {{"tcsh"}, 2}}},
      {"version", {{}}, {{{"extra"}, 2}}},
  };
}

// "  images, list      List the models": the help's lines that begin with two blanks and a letter.
std::set<std::string> commands_of_help(const std::string& help) {
  std::set<std::string> commands;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 3 || !line.starts_with("  ") || std::islower(static_cast<unsigned char>(line[2])) == 0) continue;
    std::istringstream words(line);
    std::string word;
    do {
      words >> word;
      commands.insert(word.substr(0, word.find(',')));
    } while (word.ends_with(","));
  }
  return commands;
}

class StandardOutput : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, output] : {std::pair("right", "[1, 2]"), std::pair("wrong", "[1, 3]")}) {
      const std::filesystem::path data = gpux_.folder().path() / "suite" / name / "test_data_set_0";
      std::filesystem::create_directories(data);
      const std::string identity = model("identity_float32.onnx");
      std::filesystem::copy_file(identity, data.parent_path() / "model.onnx");
      ASSERT_EQ(gpux_.run({"run", identity, "-i", "x=[1, 2]", "-o", (data / "input_0.pb").string()}).code, 0);
      const Outcome written =
          gpux_.run({"run", identity, "-i", std::string("x=") + output, "-o", (data / "output_0.pb").string()});
      ASSERT_EQ(written.code, 0) << written.err;
    }
    const std::filesystem::path tests = std::filesystem::path(GPUX_SOURCE_DIR) / "tests";
    const std::filesystem::path encoder = gpux_.folder().path() / "encoder";
    std::filesystem::copy(tests / "embedding/data/bert", encoder);
    std::filesystem::copy_file(tests / "text/data/wordpiece.json", encoder / "tokenizer.json");
    const std::string decoder = tests / "generation/references/qwen3";
    ASSERT_EQ(gpux_.run({"import", decoder, "-o", gpux_.folder().path() / "decoder"}).code, 0);
    gpux_.folder().write("decoder/chat_template.jinja", "{{ messages[0]['content'] }}");
    const std::string vector = gpux_.folder().path() / "vector.npy", identity = model("identity_float32.onnx");
    ASSERT_EQ(gpux_.run({"run", identity, "-i", "x=[1, 2]", "-o", vector}).code, 0);
    gpux_.folder().write("vectors.jsonl", "{\"vector\": [1, 0]}\n");
  }

  [[nodiscard]] Outcome call(const Row& row, const Words& arguments, const Words& more,
                             const Surroundings& where = {}) const {
    Words words{row.command};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), more.begin(), more.end());
    return gpux_.run(words, where);
  }

  Program gpux_;
};

std::string described(const Row& row, const Words& arguments) {
  std::string text = row.command;
  for (const std::string& argument : arguments) text += " " + argument;
  return text;
}

void expect_one_document(const Outcome& outcome) {
  EXPECT_FALSE(Json::parse(outcome.out, nullptr, false).is_discarded()) << "'" << outcome.out << "' " << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with('\n'));
}

TEST_F(StandardOutput, HasARowHereForEveryCommand) {
  std::set<std::string> known;
  for (const Row& row : rows(gpux_)) known.insert(row.command);
  EXPECT_EQ(commands_of_help(gpux_.run({"--help"}).out), known);
}

TEST_F(StandardOutput, IsOneJsonDocumentOnSuccess) {
  for (const Row& row : rows(gpux_)) {
    for (const Words& arguments : row.successes) {
      SCOPED_TRACE(described(row, arguments));
      const Outcome outcome = call(row, arguments, {"--json", "-v", "-v"});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      expect_one_document(outcome);
      if (row.command == "tag" || row.command == "rm" || row.command == "import") continue;  // once is all they can
      const Outcome shown = call(row, arguments, {"--json", "--log-format", "json"}, {.terminal = true});
      EXPECT_EQ(shown.code, 0) << shown.err;
      expect_one_document(shown);
    }
  }
}

TEST_F(StandardOutput, IsEmptyOrJsonOnFailure) {
  ASSERT_EQ(gpux_.run({"build", model("add.onnx"), "-t", "adder:1"}).code, 0);
  for (const Row& row : rows(gpux_)) {
    std::vector<Failure> failures = row.failures;
    failures.push_back({{"--no-such-flag"}, 2});
    for (const Failure& failure : failures) {
      SCOPED_TRACE(described(row, failure.arguments));
      const Outcome outcome = call(row, failure.arguments, {"--json"});
      EXPECT_EQ(outcome.code, failure.code) << outcome.err;
      EXPECT_THAT(outcome.err, testing::Not(IsEmpty()));
      if (failure.prints_json) {
        expect_one_document(outcome);
      } else {
        EXPECT_EQ(outcome.out, "");
      }
    }
  }
  // A core that is not there is an answer of doctor and version.
  const Surroundings without{.environment = {"GPUX_ONNXRUNTIME=/no/such/libonnxruntime.so"}};
  for (const auto& [command, code] : {std::pair("doctor", 5), std::pair("version", 0)}) {
    const Outcome outcome = gpux_.run({command, "--json"}, without);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    expect_one_document(outcome);
  }
}

// Where standard output goes makes no difference.
class TablesByDefault : public StandardOutput, public testing::WithParamInterface<bool> {};

TEST_P(TablesByDefault, ArePrintedWhereTheCommandHasOne) {
  for (const Row& row : rows(gpux_)) {
    if (row.successes.empty()) continue;
    const Words& arguments = row.successes.front();
    SCOPED_TRACE(described(row, arguments));
    const Outcome outcome = call(row, arguments, {}, {.terminal = GetParam()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out, nullptr, false).is_discarded(), row.has_table) << outcome.out;
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, TablesByDefault, testing::Bool(),
                         [](const auto& one) { return one.param ? "terminal" : "pipe"; });

TEST_F(StandardOutput, TakesNoFlagThatWouldDoNothing) {
  ASSERT_EQ(gpux_.run({"build", model("add.onnx"), "-t", "adder:1"}).code, 0);
  const std::string add = model("add.onnx");
  for (const Words& words : std::vector<Words>{{"run", add, "-i", "x=[[1, 2, 3]]", "--table"},
                                               {"schema", "--table"},
                                               {"completion", "bash", "--table"},
                                               {"serve", add, "--table"},
                                               {"images", "--json", "--table"}}) {
    const Outcome outcome = gpux_.run(words);
    EXPECT_EQ(outcome.code, 2) << words.front();
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
}

// Messages are best effort: where they cannot be written, the answer and the exit code are the same.
class UnwritableMessages : public StandardOutput, public testing::WithParamInterface<const char*> {};

TEST_P(UnwritableMessages, ChangeNeitherTheAnswerNorTheExitCode) {
  const Surroundings where{.shell = GetParam()};
  for (const Row& row : rows(gpux_)) {
    for (const Words& arguments : row.successes) {
      SCOPED_TRACE(described(row, arguments));
      const Outcome outcome = call(row, arguments, {"--json", "-v", "-v"}, where);
      EXPECT_EQ(outcome.code, 0);
      expect_one_document(outcome);
      EXPECT_EQ(outcome.err, "");
    }
    for (const Failure& failure : row.failures) {
      if (row.command == "rm") continue;  // its model has gone by now
      SCOPED_TRACE(described(row, failure.arguments));
      EXPECT_EQ(call(row, failure.arguments, {"--json"}, where).code, failure.code);
    }
  }
  EXPECT_EQ(gpux_.run({"no-such-command"}, where).code, 2);
}

// The last one: a file that is opened must not get the number of standard error and be written to as that.
INSTANTIATE_TEST_SUITE_P(Streams, UnwritableMessages,
                         testing::Values("exec 2>/dev/full", "exec 2>&-", "exec 2>&- <&-"));

constexpr const char* pipe_without_reader =
    "f=$(mktemp -u) && mkfifo \"$f\" && exec 3<>\"$f\" >\"$f\" 3>&- && rm \"$f\"";

class UnwritableData : public StandardOutput, public testing::WithParamInterface<const char*> {};

TEST_P(UnwritableData, IsAnError) {
  const Surroundings where{.shell = GetParam()};
  const auto expect_error = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 13);
    // Nothing is said of a reader that has left, as `head` does.
    const auto is_told = testing::HasSubstr("gpux: cannot write to standard output: ");
    if (GetParam() == std::string(pipe_without_reader)) {
      EXPECT_THAT(outcome.err, testing::Not(is_told));
    } else {
      EXPECT_THAT(outcome.err, is_told);
    }
  };
  for (const Row& row : rows(gpux_)) {
    for (const Words& arguments : row.successes) {
      SCOPED_TRACE(described(row, arguments));
      expect_error(call(row, arguments, {"--json"}, where));
    }
    if (row.command != "top" && row.command != "list" && row.command != "ls" && row.command != "rmi")
      expect_error(call(row, {"--help"}, {}, where));
  }
  for (const char* flag : {"--help", "--version"}) expect_error(gpux_.run({flag}, where));
  // Data that goes elsewhere does not need it.
  const std::string file = (gpux_.folder().path() / "answer.json").string();
  const Outcome elsewhere = gpux_.run({"run", model("add.onnx"), "-i", R"({"x": [[1, 2, 3]]})", "-o", file}, where);
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_EQ(Json::parse(content_of(file), nullptr, false), Json::parse(R"({"y": [[2.0, 4.0, 6.0]]})"));
}

INSTANTIATE_TEST_SUITE_P(Streams, UnwritableData, testing::Values("exec >/dev/full", "exec >&-", pipe_without_reader));

}  // namespace
}  // namespace gpux::test
