// gpux generate, with a tiny decoder: what it says, and how it refuses. The tokens: tests/generation.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "text/token_words.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path source = std::filesystem::path(GPUX_SOURCE_DIR) / "tests/generation/references/qwen3";
    const Outcome imported = gpux_.run({"import", source, "-t", "tiny"});
    ASSERT_EQ(imported.code, 0) << imported.err;
    EXPECT_THAT(imported.out, HasSubstr("qwen3, 2 layers, hidden size 32, at most 640 tokens, text generation"));
    EXPECT_THAT(imported.err, HasSubstr("try: gpux generate tiny:latest"));
  }

  Program gpux_;
};

TEST_F(Generate, PrintsTheTextAndSaysWhatRan) {
  const Outcome outcome = gpux_.run({"generate", "tiny", "w1 w2", "--max-tokens", "5"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("( w[0-9]+)+\n"));
  EXPECT_THAT(outcome.err, HasSubstr("ran on "));
  EXPECT_THAT(outcome.err, HasSubstr("tokens after a prompt of 3 ("));
  EXPECT_EQ(gpux_.run({"-q", "generate", "tiny", "-", "--max-tokens", "5"}, {.standard_input = "w1 w2"}).out,
            outcome.out);
}

// As a word: what a pipe brings is the prompt.
TEST_F(Generate, ReadsAPipeWithoutAPrompt) {
  const std::vector<std::string> words{"-q", "generate", "tiny", "--max-tokens", "5"};
  EXPECT_EQ(gpux_.run(words, {.standard_input = "w1 w2"}).out,
            gpux_.run({"-q", "generate", "tiny", "w1 w2", "--max-tokens", "5"}).out);
  Terminal terminal(gpux_, words);
  EXPECT_EQ(terminal.wait(), 2);
  EXPECT_THAT(terminal.shown(), HasSubstr("PROMPT is missing: the text to continue, as an argument or from a pipe"));
}

TEST_F(Generate, MeasuresWithinTheContext) {
  const std::filesystem::path source = std::filesystem::path(GPUX_SOURCE_DIR) / "tests/generation/references/qwen3";
  const Outcome imported = gpux_.run({"import", source, "-t", "short", "--context-length", "50"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Json measured = gpux_.run({"bench", "short", "--runs", "1", "--json"}).json();
  EXPECT_EQ(measured.at("prompt_tokens"), 40) << measured;
  EXPECT_EQ(measured.at("generate_tokens"), 10);
  // One user and four, those of the first beside the others.
  EXPECT_EQ(measured.at("users"), 1);
  ASSERT_EQ(measured.at("loads").size(), 2);
  EXPECT_EQ(measured.at("loads")[0].at("generate_tokens_per_second"), measured.at("generate_tokens_per_second"));
  EXPECT_EQ(measured.at("loads")[1].at("users"), 4);
  const Json alone = gpux_.run({"bench", "short", "--users", "2", "--runs", "1", "--json"}).json();
  EXPECT_EQ(alone.at("users"), 2);
  EXPECT_FALSE(alone.contains("loads"));
  const auto table = gpux_.run({"bench", "short", "--users", "1,3", "--runs", "1"});
  EXPECT_THAT(table.out, testing::AllOf(testing::HasSubstr("1 user "), testing::HasSubstr("3 users"))) << table.err;
  EXPECT_EQ(gpux_.run({"bench", "short", "--users", "0", "--runs", "1"}).code, 2);
  EXPECT_EQ(gpux_.run({"bench", "short", "--prompt-tokens", "45", "--generate-tokens", "10"}).code, 2);
}

TEST_F(Generate, GivesOneDocumentWithJson) {
  const Outcome outcome = gpux_.run({"generate", "tiny", "w1 w2", "--max-tokens", "5", "--ignore-eos", "--json"});
  const Json said = Json::parse(outcome.out);
  EXPECT_EQ(said.at("prompt_tokens"), 3);
  EXPECT_EQ(said.at("completion_tokens"), 5);
  EXPECT_EQ(said.at("tokens").size(), 5);
  EXPECT_EQ(said.at("finish_reason"), "length");
}

// The model takes tokens with the keys and values of earlier ones, whatever lies beside it.
TEST_F(Generate, IsWhatOtherCommandsPointTo) {
  const Outcome inspected = gpux_.run({"inspect", "tiny", "--json"});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  std::vector<std::string> inputs;
  const Json document = inspected.json();
  for (const Json& input : document.at("model_info").at("inputs")) inputs.push_back(input.at("name"));
  EXPECT_THAT(inputs, testing::Contains("past_key_values.0.key"));
  EXPECT_THAT(inputs, testing::Not(testing::Contains(testing::StartsWith("text"))));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", "tiny", "w1 w2"}, {"run", "tiny"}, {"run", "tiny", R"({"input_ids": [[1]]})"}}) {
    const Outcome outcome = gpux_.run(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("'tiny' generates text: 'gpux generate tiny PROMPT' continues one, and 'gpux "
                                       "chat tiny' answers messages"));
    EXPECT_EQ(outcome.out, "");
  }
  const Outcome wrong = gpux_.run({"run", "tiny", "--input", "{\"input_ids\": "});
  EXPECT_EQ(wrong.code, 6) << wrong.err;
  EXPECT_THAT(wrong.err, testing::Not(HasSubstr("generates text")));
}

TEST_F(Generate, RefusesSettingsInOneLine) {
  struct Row {
    std::vector<std::string> flags;
    int code;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {{"-n", "0"}, 2, "--max-tokens: Value 0 not in range 1 to 2147483648"},
           {{"-n", "x"}, 2, "--max-tokens: Value x not in range 1 to 2147483648"},
           {{"-n", "100000"},
            2,
            "--max-tokens is 100000; accepted: up to 637, because the prompt has 3 of the context's"},
           {{"--stop", ""}, 2, "stop has a text of 0 bytes; accepted: 1 to 1024"},
           {{"--stop-token", "99999"}, 2, "--stop-token has token 99999; accepted: 0 to 203"},
           {{"--min-tokens", "9", "-n", "3"}, 2, "--min-tokens is 9; accepted: up to --max-tokens, 3"},
       }) {
    std::vector<std::string> arguments{"generate", "tiny", "w1 w2"};
    arguments.insert(arguments.end(), row.flags.begin(), row.flags.end());
    const Outcome outcome = gpux_.run(arguments);
    EXPECT_EQ(outcome.code, row.code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
    EXPECT_EQ(outcome.out, "");
  }
}

// The tokens are those of the model alone, here and in worker processes.
TEST_F(Generate, TakesADraftModel) {
  namespace fs = std::filesystem;
  const fs::path source = fs::path(GPUX_SOURCE_DIR) / "tests/generation/references/llama3";
  ASSERT_EQ(gpux_.run({"import", source, "-t", "small"}).code, 0);
  const auto generated = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments{"generate",     "tiny",   "w1 w2", "-n",     "60",
                                       "--ignore-eos", "--json", "-p",    "decoder"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = gpux_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  const Json alone = generated({}), drafted = generated({"--draft", "small"});
  EXPECT_EQ(drafted.at("tokens"), alone.at("tokens"));
  EXPECT_THAT(drafted.at("verdict").dump(), HasSubstr("tokens are guessed by the draft model 'small'"));
  const Json isolated = generated({"--draft", "small", "--isolation", "process"});
  EXPECT_EQ(isolated.at("tokens"), alone.at("tokens"));
  const Json measured =
      gpux_.run({"bench", "tiny", "--draft", "small", "-p", "decoder", "--runs", "1", "--json"}).json();
  EXPECT_LE(measured.at("accepted_draft_tokens"), measured.at("draft_tokens")) << measured;
}

TEST_F(Generate, RefusesADraftModelThatDoesNotGoWithTheModel) {
  namespace fs = std::filesystem;
  const fs::path source = fs::path(GPUX_SOURCE_DIR) / "tests/generation/references/llama3";
  const fs::path folder = gpux_.folder().path() / "other";
  fs::create_directory(folder);
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors"}) {
    fs::copy_file(source / file, folder / file);
  }
  std::string tokenizer = read_file(source / "tokenizer.json");
  tokenizer.replace(tokenizer.find("\"w7\""), 4, "\"W7\"");
  gpux_.folder().write("other/tokenizer.json", tokenizer);
  ASSERT_EQ(gpux_.run({"import", folder, "-t", "other"}).code, 0);
  ASSERT_EQ(gpux_.run({"import", source, "-t", "small"}).code, 0);

  struct Row {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {{"generate", "tiny", "w1", "--draft", "other", "-p", "decoder"},
            2,
            "--draft is 'other', which has other tokens: token 11 is 'w7' in the model and 'W7' in the draft model; "
            "accepted: a model with the same tokens"},
           {{"generate", "tiny", "w1", "--draft", "small", "-p", "cpu"}, 2, "accepted: --provider decoder"},
           {{"generate", "tiny", "w1", "--draft", "absent", "-p", "decoder"}, 7, "absent"},
           {{"serve", "one=tiny", "two=tiny", "--draft", "small"}, 2, "--draft is about one model"},
           {{"serve", "--draft", "small"}, 2, "--draft is about one model"},
       }) {
    const Outcome outcome = gpux_.run(row.arguments);
    EXPECT_EQ(outcome.code, row.code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
  }
}

// A decoder whose tokens are characters.
class GenerateAForm : public testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    const fs::path source = fs::path(GPUX_SOURCE_DIR) / "tests/generation/references/qwen3";
    const fs::path folder = gpux_.folder().path() / "characters";
    fs::create_directory(folder);
    for (const char* file : {"config.json", "model.safetensors"}) fs::copy_file(source / file, folder / file);
    gpux_.folder().write("characters/generation_config.json", R"({"eos_token_id": 2})");
    gpux_.folder().write("characters/tokenizer.json", made_tokenizer("metaspace", {"\":", "12", "true"}));
    const Outcome imported = gpux_.run({"import", folder, "-t", "characters"});
    ASSERT_EQ(imported.code, 0) << imported.err;
  }

  // What is generated with this form, by chance as `seed` says.
  [[nodiscard]] Json generate(const std::vector<std::string>& form, int seed) const {
    std::vector<std::string> arguments{"generate",      "characters", "ab",     "--json",
                                       "--temperature", "2",          "--seed", std::to_string(seed)};
    arguments.insert(arguments.end(), form.begin(), form.end());
    const Outcome outcome = gpux_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  }

  Program gpux_;
};

TEST_F(GenerateAForm, OfASchemaExpressionOrGrammar) {
  const std::string schema =
      R"({"type": "object", "properties": {"b": {"type": "integer", "minimum": 10, "maximum": 99},
                                 "a": {"enum": [true, 12]}}, "required": ["b", "a"], "additionalProperties": false})";
  gpux_.folder().write("schema.json", schema);
  gpux_.folder().write("grammar.lark", "start: \"<\" INNER \">\"\nINNER: /[xyz]{3,6}/\n");
  const std::string in_file = (gpux_.folder().path() / "schema.json").string();
  const std::string grammar = (gpux_.folder().path() / "grammar.lark").string();
  for (int seed = 0; seed < 3; ++seed) {
    for (const std::string& given : {schema, in_file}) {
      const Json said = generate({"--json-schema", given}, seed);
      EXPECT_EQ(said.at("finish_reason"), "stop") << said;
      const Json value = Json::parse(said.at("text").get<std::string>());
      EXPECT_EQ(value.size(), 2);
      EXPECT_GE(value.at("b").get<int>(), 10);
      EXPECT_LE(value.at("b").get<int>(), 99);
      EXPECT_TRUE(value.at("a") == true || value.at("a") == 12);
    }
    EXPECT_THAT(generate({"--regex", "^[ab]{2}( c+)?$", "--max-tokens", "60"}, seed).at("text").get<std::string>(),
                testing::MatchesRegex("[ab][ab]( c+)?"));
    EXPECT_THAT(generate({"--grammar", grammar}, seed).at("text").get<std::string>(),
                testing::MatchesRegex("<[xyz]{3,6}>"));
    EXPECT_EQ(generate({"--json-object", "--max-tokens", "9"}, seed).at("text").get<std::string>().front(), '{');
  }
}

TEST_F(GenerateAForm, RefusesWhatIsNone) {
  struct Row {
    std::vector<std::string> form;
    int code;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {{"--json-schema", R"({"if": {}})"}, 6, "at #/if: the keyword if is not supported"},
           {{"--json-schema", "no.such.file"}, 7, "no.such.file"},
           {{"--grammar", "no.such.file"}, 7, "no.such.file"},
           {{"--regex", "(a"}, 6, "regular expression: the regular expression is wrong at character 1"},
           {{"--regex", "a", "--json-object"}, 2, "--json-object"},
           {{"--regex", "a", "--ignore-eos"}, 2, "--ignore-eos is set, and a constraint"},
           {{"--regex", "a+", "--min-tokens", "5"},
            2,
            "--min-tokens is 5, and a constraint decides where the text ends"},
           {{"--regex", "é"}, 6, "no token of the vocabulary continues the text"},
       }) {
    std::vector<std::string> arguments{"generate", "characters", "ab"};
    arguments.insert(arguments.end(), row.form.begin(), row.form.end());
    const Outcome outcome = gpux_.run(arguments);
    EXPECT_EQ(outcome.code, row.code) << row.message << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
  }
}

TEST(ManualExample, ContinuesAPage) {
  const Program gpux;
  const std::string folder = GPUX_SOURCE_DIR "/examples/manual";
  const std::vector<std::string> page{"generate", folder, "NAME", "--seed", "2", "--max-tokens", "100"};
  const Outcome outcome = gpux.run(page);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("in int8"));
  EXPECT_THAT(outcome.out, testing::StartsWith("\n    "));
  EXPECT_EQ(gpux.run(page).out, outcome.out);
  EXPECT_THAT(gpux.run({"generate", folder, "DESCRIPTION", "--temperature", "0", "--max-tokens", "9"}).out,
              testing::StartsWith("\n    The following"));
  const Outcome chat = gpux.run({"chat", folder, "--message", "hi"});
  EXPECT_EQ(chat.code, 4);
  EXPECT_THAT(chat.err, HasSubstr("'gpux generate'"));
}

TEST_F(Generate, RefusesByName) {
  struct Row {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };

  const std::string add = model("add.onnx");
  for (const Row& row : std::vector<Row>{
           {{"generate", "none", "a"}, 7, "no model 'none:latest' is stored here"},
           {{"generate", add, "a"}, 4, "'add' generates no text"},
           {{"generate", "tiny", "a", "--temperature", "-1"}, 2, "temperature is -1; accepted: 0 to 100"},
           {{"generate", "tiny", "a", "--max-tokens", "0"}, 2, "--max-tokens"},
           {{"generate", "tiny", "a", "--max-tokens", "640"}, 2, "--max-tokens is 640; accepted: up to"},
           {{"generate", "tiny", "a", "--json-object"},
            6,
            "not available with this model's tokenizer: its decoder is WordPiece"},
           {{"generate", "tiny", "\xff"}, 6, "UTF-8"},
           {{"embed", "tiny", "a"}, 4, "the model generates text: 'gpux generate' runs it"},
       }) {
    const Outcome outcome = gpux_.run(row.arguments);
    EXPECT_EQ(outcome.code, row.code) << row.message << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace gpux::test
