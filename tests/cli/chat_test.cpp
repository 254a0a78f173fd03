// gpux chat, with a decoder whose tokens are characters: expressions say what it answers.
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "cli/typed_lines.h"
#include "gpux/error.h"
#include "text/token_words.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using cli::TypedInput;
using testing::HasSubstr;
using testing::Not;

// What lines make: messages as "text", commands as "/name|argument".
std::vector<std::string> read_lines(const std::vector<std::string>& lines) {
  cli::TypedLines typed;
  std::vector<std::string> inputs;
  for (const std::string& line : lines) {
    const std::optional<TypedInput> input = typed.add(line);
    if (input) inputs.push_back(input->command.empty() ? input->text : "/" + input->command + "|" + input->text);
  }
  if (typed.is_open()) inputs.emplace_back("open");
  return inputs;
}

TEST(TypedLines, AreMessagesAndCommands) {
  struct Row {
    std::vector<std::string> lines, inputs;
  };

  for (const Row& row : std::vector<Row>{
           {{"a", "  b "}, {"a", "  b "}},
           {{"", "  ", "\t"}, {}},
           {{"a\\", "b\\", "", "c"}, {"a\nb\n", "c"}},
           {{"a\\"}, {"open"}},
           {{R"("""one)", "two", R"(three""")"}, {"one\ntwo\nthree"}},
           {{R"(""")", "two\\", "/three", R"(""")"}, {"two\\\n/three\n"}},
           {{R"("""one""")", "b"}, {"one", "b"}},
           {{R"("""/exit""")"}, {"/exit"}},
           {{R"("""""")"}, {}},
           {{R"(""")", "a"}, {"open"}},
           {{"a \"\"\" b"}, {"a \"\"\" b"}},
           {{"/exit"}, {"/exit|"}},
           {{"/set temperature  0.5 "}, {"/set|temperature  0.5"}},
           {{"/system a\\", "b"}, {"/system|a\nb"}},
           {{" /exit"}, {" /exit"}},
       }) {
    EXPECT_EQ(read_lines(row.lines), row.inputs) << testing::PrintToString(row.lines);
  }
}

TEST(TypedLines, AreLimited) {
  cli::TypedLines typed;
  (void)typed.add("\"\"\"");
  EXPECT_THROW((void)typed.add(std::string(cli::TypedLines::max_bytes + 1, 'a')), Error);
  EXPECT_FALSE(typed.is_open());
}

constexpr const char* chat_template =
    "{# <think> #}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}";

class Chat : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path source = fs::path(GPUX_SOURCE_DIR) / "tests/generation/references/qwen3";
    const fs::path folder = gpux_.folder().path() / "source";
    fs::create_directory(folder);
    fs::copy_file(source / "model.safetensors", folder / "model.safetensors");
    Json config = Json::parse(read_file(source / "config.json"));
    config["max_position_embeddings"] = 200'000;  // an answer that takes long
    gpux_.folder().write("source/config.json", config.dump());
    gpux_.folder().write("source/generation_config.json", R"({"eos_token_id": 2})");
    gpux_.folder().write("source/tokenizer.json", made_tokenizer("metaspace", {"\n"}));
    import("plain");
    gpux_.folder().write("source/chat_template.jinja", chat_template);
    import("tiny");
  }

  void import(const std::string& name) const {
    const Outcome imported = gpux_.run({"import", gpux_.folder().path() / "source", "-t", name});
    ASSERT_EQ(imported.code, 0) << imported.err;
  }

  [[nodiscard]] Outcome chat(std::vector<std::string> arguments, const std::string& input) const {
    arguments.insert(arguments.begin(), {"chat", "tiny"});
    return gpux_.run(arguments, {.standard_input = input});
  }

  [[nodiscard]] std::string file(const std::string& name) const { return (gpux_.folder().path() / name).string(); }

  Program gpux_;
};

TEST_F(Chat, AnswersEachLineOfAPipeInOneConversation) {
  const Outcome outcome = chat({"--regex", "yes", "--seed", "1"}, "a\n\n  \r\n/exit\nb");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "yes\nyes\nyes\n");
  EXPECT_THAT(outcome.err, HasSubstr("ran on "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("tokens/s")));

  const Outcome documents = chat({"--regex", "yes", "--json", "--system", "s"}, "a\nb\n");
  std::istringstream lines(documents.out);
  std::vector<Json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].at("message"), Json({{"role", "assistant"}, {"content", "yes"}}));
  EXPECT_EQ(answers[0].at("finish_reason"), "stop");
  EXPECT_EQ(answers[0].at("prompt_tokens"), std::string("system: s\nuser: a\nassistant: ").size());
  EXPECT_EQ(answers[1].at("prompt_tokens"),
            std::string("system: s\nuser: a\nassistant: yes\nuser: b\nassistant: ").size());
  EXPECT_GT(answers[1].at("cached_tokens"), 0);
}

TEST_F(Chat, AnswersOneMessage) {
  EXPECT_EQ(chat({"--message", "a", "--regex", "no"}, "b\n").out, "no\n");
  const Outcome whole = chat({"--message", "-", "--regex", "no", "--json"}, "a\nb\n");
  EXPECT_EQ(whole.json().at("prompt_tokens"), std::string("user: a\nb\n\nassistant: ").size());
  const Outcome told = gpux_.run({"-v", "chat", "tiny", "--message", "a", "--regex", "no"});
  EXPECT_THAT(told.err, HasSubstr("tokens after a prompt of 19 (stop)"));
}

TEST_F(Chat, KeepsReasoningOutOfTheAnswer) {
  const std::vector<std::string> form{"--message", "a", "--regex", "<think>why</think>yes"};
  EXPECT_EQ(chat(form, "").out, "yes\n");
  std::vector<std::string> with_json = form;
  with_json.emplace_back("--json");
  EXPECT_EQ(chat(with_json, "").json().at("message").at("reasoning_content"), "why");
  std::vector<std::string> arguments{"chat", "tiny"};
  arguments.insert(arguments.end(), form.begin(), form.end());
  Terminal terminal(gpux_, arguments);
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.shown(), HasSubstr("\x1b[2mwhy\x1b[0m"));
}

TEST_F(Chat, IsAConversationOnATerminal) {
  Terminal terminal(gpux_, {"chat", "tiny", "--regex", "yes"});
  terminal.await("ran on ");
  terminal.await(">>> ");
  terminal.type("hi\n");
  terminal.await("yes");
  terminal.await(">>> ");
  terminal.type("/set regex no\n");
  terminal.await(">>> ");
  terminal.type("\"\"\"two\n");
  terminal.await("... ");
  terminal.type("lines\"\"\"\n");
  terminal.await("no");
  terminal.await(">>> ");
  terminal.type("/set regex default\n");
  terminal.await(">>> ");
  terminal.type("/system be brief\n");
  terminal.await(">>> ");
  terminal.type("three\\\n");
  terminal.await("... ");
  terminal.type("more\n");
  terminal.await("yes");
  terminal.await(">>> ");
  terminal.type("/stats\n");
  terminal.await("7 messages in the conversation");
  terminal.await("tokens/s");
  terminal.await(">>> ");
  terminal.type("/save " + file("saved.json") + "\n");
  terminal.await("7 messages saved");
  terminal.await(">>> ");
  const Json saved = Json::parse(read_file(file("saved.json")));
  std::vector<std::string> contents;
  for (const Json& message : saved) contents.push_back(message.at("content"));
  EXPECT_THAT(contents, testing::ElementsAre("be brief", "hi", "yes", "two\nlines", "no", "three\nmore", "yes"));
  terminal.type("/clear\n");
  terminal.await(">>> ");
  terminal.type("/stats\n");
  terminal.await("1 message in the conversation");
  terminal.await(">>> ");
  terminal.type("/load " + file("saved.json") + "\n");
  terminal.await("7 messages loaded");
  terminal.await(">>> ");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.wait(), 0);
}

// The keys of a shell. What a line is afterwards is seen by what is saved.
TEST_F(Chat, ItsLinesAreEdited) {
  Terminal terminal(gpux_, {"chat", "tiny", "--regex", "yes"}, "xterm");
  constexpr const char *up = "\x1b[A", *left = "\x1b[D", *home = "\x01", *erase_word = "\x17";
  const auto type = [&](const std::string& keys) {
    terminal.await(">>> ");
    terminal.type(keys + "\n");
    terminal.await("yes");
  };
  type(std::string("bc") + home + "a");
  type(std::string("tree") + left + left + left + "h");
  type(std::string("one two") + erase_word + "three");
  type(std::string(up) + up + "!");
  type("caf\xc3\xa9 \xe6\x97\xa5x\x7f");
  const std::string line(9000, 'a');  // more than a terminal's own lines have
  type(line);
  terminal.await(">>> ");
  terminal.type("half\x03");
  terminal.await("Ctrl-C again leaves");
  type("\"\"\"two\nlines\"\"\"");
  terminal.await(">>> ");
  terminal.type("/save ~/saved.json\n");
  terminal.await("messages saved");
  terminal.await(">>> ");
  terminal.type("/load ~/saved.json\n");
  terminal.await("messages loaded");
  terminal.await(">>> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
  std::vector<std::string> typed;
  for (const Json& message : Json::parse(read_file(file("saved.json")))) {
    if (message.at("role") == "user") typed.push_back(message.at("content"));
  }
  EXPECT_THAT(typed, testing::ElementsAre("abc", "three", "one three", "three!", "caf\xc3\xa9 \xe6\x97\xa5", line,
                                          "two\nlines"));
}

TEST_F(Chat, RefusesCommandsByNameAndGoesOn) {
  Terminal terminal(gpux_, {"chat", "tiny", "--regex", "yes"});
  terminal.await(">>> ");
  gpux_.folder().write("wrong.json", "[1]");

  struct Row {
    std::string line, message;
  };

  for (const Row& row : std::vector<Row>{
           {"/st", "'/st' is no command, did you mean '/set'?; accepted: /help, /set"},
           {"/clear all", "/clear takes no argument, and has 'all'"},
           {"/set", "settings: max-tokens, min-tokens, temperature"},
           {"/set heat 1", "'heat' is no setting; accepted: max-tokens"},
           {"/set temperature", "an argument is missing: /set NAME VALUE"},
           {"/set temperature warm", "'warm' is no value of temperature"},
           {"/set temperature 1000", "temperature is 1000; accepted: 0 to 100"},
           {"/set max_tokens 0", "'0' is no value of max-tokens"},
           {"/set grammar no.such.file", "no.such.file"},
           {"/save", "an argument is missing: /save FILE"},
           {"/load no.such.file", "no.such.file"},
           {"/load " + file("wrong.json"), "messages[0] is not a message"},
           {"/help", "Ctrl-C stops an answer"},
       }) {
    terminal.type(row.line + "\n");
    terminal.await(row.message);
    terminal.await(">>> ");
  }
  terminal.type("hi\n");
  terminal.await("yes");
  terminal.await(">>> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(Chat, ItsAnswersAreStoppedByCtrlC) {
  Terminal terminal(gpux_, {"chat", "tiny", "--regex", "[a-y]{150000}", "--temperature", "1"});
  terminal.await(">>> ");
  terminal.type("begin\n");
  terminal.await("begin\r\n");
  terminal.await("a");
  terminal.type("\x03");
  terminal.await("the answer was stopped");
  terminal.await(">>> ");
  // It goes on, with what has come of the answer.
  terminal.type("/set regex yes\n");
  terminal.await(">>> ");
  terminal.type("next\n");
  terminal.await("yes");
  terminal.await(">>> ");
  terminal.type("/stats\n");
  terminal.await("4 messages in the conversation");
  terminal.await(">>> ");
  // At the prompt, the first one drops what was typed, and the second one leaves.
  terminal.type("half\x03");
  terminal.await("Ctrl-C again leaves");
  terminal.await(">>> ");
  terminal.type("next\n");
  terminal.await("yes");
  terminal.await(">>> ");
  terminal.type("\x03");
  terminal.await("Ctrl-C again leaves");
  terminal.await(">>> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 130);
}

TEST_F(Chat, RefusesByName) {
  struct Row {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {{"chat"}, 2, "MODEL is required"},
           {{"chat", "none"}, 7, "no model 'none:latest' is stored here"},
           {{"chat", model("add.onnx")}, 4, "'add' generates no text"},
           {{"chat", "plain"}, 4, "has no chat template"},
           {{"chat", "plain"}, 4, "'gpux generate'"},
           {{"chat", "tiny"}, 6, "standard input has no message"},
           {{"chat", "tiny", "--message", " "}, 6, "--message is empty"},
           {{"chat", "tiny", "--message", "a", "--temperature", "-1"}, 2, "temperature is -1; accepted: 0 to 100"},
           {{"chat", "tiny", "--message", "a", "--template-values", "[]"}, 2, "--template-values is no JSON object"},
           {{"chat", "tiny", "--message", "\xff"}, 6, "UTF-8"},
       }) {
    const Outcome outcome = gpux_.run(row.arguments, {.standard_input = "\n"});
    EXPECT_EQ(outcome.code, row.code) << row.message << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace gpux::test
