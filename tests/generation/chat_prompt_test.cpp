#include "generation/chat_prompt.h"

#include <cstdlib>
#include <ctime>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "generation/model_chat.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr std::chrono::system_clock::time_point reference_time{std::chrono::seconds{1753538700}};

std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests/text/chat" / name;
}

std::vector<Json> rows_of(const std::string& file) {
  std::vector<Json> rows;
  std::istringstream lines(read_file(data(file)));
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

ChatMessage message_of(const Json& json) {
  ChatMessage message{.role = json["role"],
                      .content = json["content"],
                      .reasoning = json.value("reasoning_content", ""),
                      .tool_calls = {},
                      .tool_call_id = json.value("tool_call_id", ""),
                      .name = json.value("name", "")};
  for (const Json& call : json.value("tool_calls", Json::array())) {
    message.tool_calls.push_back({call["id"], call["function"]["name"], call["function"]["arguments"].dump()});
  }
  return message;
}

class Folder {
 public:
  Folder& write(const std::string& name, const std::string& text) {
    folder_.write(name, text);
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

  [[nodiscard]] std::string refusal() const {
    try {
      (void)ModelChat(path()).require_prompt();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      return error.message();
    }
    return "nothing was refused";
  }

 private:
  test::TemporaryFolder folder_;
};

std::string refusal(const ChatPrompt& prompt, const std::vector<ChatMessage>& messages,
                    const ChatOptions& options = {}) {
  try {
    (void)prompt.text(messages, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    return error.message();
  }
  return "nothing was refused";
}

bool is_text_without_tools(const ChatPrompt& prompt, const std::vector<ChatMessage>& messages, ChatOptions options,
                           const std::string& text) {
  options.tools.clear();
  try {
    return prompt.text(messages, options, reference_time) == text;
  } catch (const Error&) {
    return false;
  }
}

// The conversations of tests/text/chat as structures give the texts of transformers, too.
TEST(ChatPrompt, EqualsTransformers) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  std::map<std::string, Json> conversations;
  for (const Json& row : rows_of("conversations.jsonl")) conversations[row["name"]] = row;
  std::size_t compared = 0;
  std::set<std::string> hidden;
  for (const Json& row : rows_of("references.jsonl")) {
    const std::string name = row["template"], conversation = row["conversation"];
    // Parts of a content have no place in the structure, and this file's reader rounds large integers.
    if (!row.contains("text") || conversation == "parts" || conversation == "arguments") continue;
    SCOPED_TRACE(name + " with " + conversation);
    const ChatPrompt prompt(
        ChatTemplateTexts{.usual = read_file(data("templates/" + name + ".jinja")),
                          .tool_use = "",
                          .special_tokens = {{"bos_token", row["bos_token"]}, {"eos_token", row["eos_token"]}}});
    std::vector<ChatMessage> messages;
    for (const Json& message : conversations.at(conversation)["messages"]) messages.push_back(message_of(message));
    Json values = conversations.at(conversation)["arguments"];
    ChatOptions options{.tools = values.contains("tools") ? values["tools"].dump() : "",
                        .template_values = "",
                        .add_generation_prompt = values.value("add_generation_prompt", false)};
    values.erase("tools");
    values.erase("add_generation_prompt");
    if (!values.empty()) options.template_values = values.dump();
    // transformers shows such tools to nobody, without a word.
    if (!options.tools.empty() && is_text_without_tools(prompt, messages, options, row["text"])) {
      EXPECT_THAT(refusal(prompt, messages, options),
                  HasSubstr("tools are given, and the chat template does not show"));
      hidden.insert(name);
      continue;
    }
    EXPECT_EQ(prompt.text(messages, options, reference_time), row["text"].get<std::string>());
    ++compared;
  }
  EXPECT_GT(compared, 390U);
  EXPECT_THAT(hidden, testing::IsSupersetOf({"gemma2", "gemma3", "phi4-mini", "llama2", "zephyr"}));
  for (const char* name : {"qwen2.5", "qwen3", "llama3.1", "mistral-v0.3", "hermes3", "granite3", "smollm3"}) {
    EXPECT_FALSE(hidden.contains(name)) << name;
  }
}

// Not at once: with the second message.
TEST(ChatPrompt, LooksForToolsInEachConversationWhereTheFirstHasNone) {
  const ChatPrompt prompt(ChatTemplateTexts{.usual = "{% for m in messages %}{{ m.content }}{% endfor %}{% if "
                                                     "messages[0].role == 'system' %}{{ tools }}{% endif %}",
                                            .tool_use = "",
                                            .special_tokens = {}});
  EXPECT_FALSE(prompt.shows_tools());
  const ChatOptions options{.tools = R"([{"type": "function", "function": {"name": "add"}}])"};
  const std::vector<ChatMessage> user{{.role = "user", .content = "a"}};
  const std::vector<ChatMessage> system{{.role = "system", .content = "b"}, {.role = "user", .content = "a"}};
  EXPECT_THAT(prompt.text(system, options), HasSubstr("add"));
  EXPECT_EQ(refusal(prompt, user, options),
            "tools are given, and the chat template does not show them to the model; accepted: none");
  EXPECT_EQ(prompt.text(user), "a");
}

TEST(ChatPrompt, TakesArgumentsOfAnyNumbers) {
  const ChatPrompt prompt(ChatTemplateTexts{
      .usual = "{{ messages[0].tool_calls[0].function.arguments.n | string }}", .tool_use = "", .special_tokens = {}});
  const std::vector<ChatMessage> messages{
      {.role = "assistant", .content = "", .tool_calls = {{.id = "", .name = "f", .arguments = R"({"n": 17.9E999})"}}}};
  EXPECT_EQ(prompt.text(messages), "inf");  // as Python's json reads it
}

TEST(ChatPrompt, FindsTheTemplatesOfAFolder) {
  struct Case {
    std::map<std::string, std::string> files;
    std::string usual, tool_use;
  };

  const std::string named =
      R"({"chat_template": [{"name": "default", "template": "D"}, {"name": "rag", "template": "R"}, {"name": "tool_use", "template": "T"}]})";
  const std::vector<Case> table{
      {{{"chat_template.jinja", "J"}, {"tokenizer_config.json", R"({"chat_template": "C"})"}}, "J", ""},
      {{{"tokenizer_config.json", R"({"chat_template": "C"})"}, {"chat_template.json", R"({"chat_template": "O"})"}},
       "C",
       ""},
      {{{"tokenizer_config.json", named}}, "D", "T"},
      {{{"chat_template.jinja", "J"}, {"tokenizer_config.json", named}}, "J", ""},
      {{{"chat_template.jinja", "J"}, {"additional_chat_templates/tool_use.jinja", "A"}}, "J", "A"},
      {{{"chat_template.json", R"({"chat_template": "O"})"}}, "O", ""},
      {{{"tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "T"}]})"}}, "T", ""},
  };
  for (const Case& one : table) {
    Folder folder;
    for (const auto& [name, text] : one.files) folder.write(name, text);
    const auto texts = read_chat_templates(folder.path());
    ASSERT_TRUE(texts.has_value());
    EXPECT_EQ(texts.value_or(ChatTemplateTexts{}).usual, one.usual);
    EXPECT_EQ(texts.value_or(ChatTemplateTexts{}).tool_use, one.tool_use);
  }
}

TEST(ChatPrompt, SaysThatAModelHasNoTemplate) {
  EXPECT_EQ(read_chat_templates(Folder().write("tokenizer_config.json", R"({"chat_template": null})").path()),
            std::nullopt);
  EXPECT_THAT(Folder().refusal(),
              HasSubstr("has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)"));
  EXPECT_THAT(Folder().write("tokenizer_config.json", R"({"chat_template": 1})").refusal(),
              HasSubstr("accepted: a text, or a list of named ones"));
  EXPECT_THAT(Folder().write("tokenizer_config.json", R"({"chat_template": [1]})").refusal(),
              HasSubstr("accepted: an object with name and template"));
  EXPECT_THAT(Folder().write("tokenizer_config.json", "{").refusal(), HasSubstr("tokenizer_config.json"));
  EXPECT_THAT(Folder().write("chat_template.jinja", "{% if %}").refusal(),
              HasSubstr(": the chat template cannot be used: line 1: "));
  EXPECT_THAT(
      Folder().write("chat_template.jinja", "a").write("tokenizer_config.json", R"({"bos_token": 1})").refusal(),
      HasSubstr("accepted: a text, or an object with its content"));
}

TEST(ChatPrompt, TakesTheSpecialTokensOfBothFiles) {
  Folder folder;
  folder.write("chat_template.jinja", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}")
      .write("tokenizer_config.json",
             R"({"bos_token": "<b>", "eos_token": {"content": "<e>", "lstrip": false}, "pad_token": null})")
      .write("special_tokens_map.json", R"({"eos_token": {"content": "<other>"}, "unk_token": "<u>"})");
  EXPECT_EQ(ModelChat(folder.path()).require_prompt().text(std::vector<ChatMessage>(1)), "<b><other>False");
  folder.write("tokenizer_config.json",
               R"({"bos_token": "<b>", "eos_token": {"content": "<e>"}, "added_tokens_decoder": {}})");
  EXPECT_EQ(ModelChat(folder.path()).require_prompt().text(std::vector<ChatMessage>(1)), "<b><e>False");
}

TEST(ChatPrompt, UsesTheTemplateForTools) {
  const ChatPrompt prompt({.usual = "usual", .tool_use = "tools: {{ tools | length }}", .special_tokens = {}});
  const std::vector<ChatMessage> messages(1);
  EXPECT_EQ(prompt.text(messages), "usual");
  EXPECT_EQ(prompt.text(messages, {.tools = "[{}, {}]", .template_values = ""}), "tools: 2");
  EXPECT_EQ(prompt.template_text(false), "usual");
  EXPECT_EQ(prompt.template_text(true), "tools: {{ tools | length }}");
}

TEST(ChatPrompt, KeepsNumbersAndTheOrderOfKeys) {
  const ChatPrompt prompt(
      {.usual = "{{ tools | tojson }}{{ messages[0].tool_calls[0].function.arguments | tojson }}{{ more }}",
       .tool_use = "",
       .special_tokens = {}});
  ChatMessage message{.role = "assistant"};
  message.tool_calls.push_back({"", "f", R"( {"z": 12345678901234567890123, "a": 1.0} )"});
  EXPECT_EQ(
      prompt.text(std::vector{message}, {.tools = R"([{"b": 1e16, "a": 2}])", .template_values = R"({"more": 1e-7})"}),
      R"([{"b": 1e+16, "a": 2}]{"z": 12345678901234567890123, "a": 1.0}1e-07)");
}

TEST(ChatPrompt, GivesArgumentsThatAreNoObjectAsATextToTheTemplate) {
  const ChatPrompt prompt({
      .usual =
          "{% set a = messages[0].tool_calls[0].function.arguments %}{{ 'text ' ~ a if a is string else a|tojson }}",
      .tool_use = "",
      .special_tokens = {},
  });

  struct {
    const char* written;
    const char* shown;
  } const cases[]{
      {R"( {"a": 1} )", R"({"a": 1})"},
      {"", "{}"},
      {" \n", "{}"},
      {" null ", "{}"},
      {R"({"place": "Ber)", R"(text {"place": "Ber)"},
      {R"({"a": 1}, "b": {})", R"(text {"a": 1}, "b": {})"},
      {"nothing", "text nothing"},
      {"[1]", "text [1]"},
      {"1", "text 1"},
      {R"("{\"place\": \"B")", R"(text {"place": "B)"},
      {R"("{\"place\": \"B\"}")", R"({"place": "B"})"},
      {R"("\"a\"")", "text a"},
      {R"("")", "{}"},
  };

  for (const auto& [written, shown] : cases) {
    ChatMessage message{.role = "assistant"};
    message.tool_calls.push_back({"", "f", written});
    EXPECT_EQ(prompt.text(std::vector{message}), shown) << written;
  }
}

TEST(ChatPrompt, GivesATextAsAnArgumentToTemplatesThatWriteEachOne) {
  const ChatPrompt prompt({
      .usual =
          "{% for m in messages %}{% for call in m.tool_calls %}{% for name, value in call.function.arguments|items %}"
          "<{{ name }}>{{ value }}{% endfor %}{% endfor %}{% endfor %}",
      .tool_use = "",
      .special_tokens = {},
  });
  ChatMessage message{.role = "assistant"};
  message.tool_calls.push_back({"", "f", R"({"place": "Berlin"})"});
  message.tool_calls.push_back({"", "f", R"({"place": "Ber)"});
  EXPECT_EQ(prompt.text(std::vector{message}), R"(<place>Berlin<arguments>{"place": "Ber)");
  // What a template refuses for another reason it still refuses.
  const ChatPrompt strict({.usual = "{{ raise_exception('no') }}", .tool_use = "", .special_tokens = {}});
  EXPECT_THAT(refusal(strict, {message}), HasSubstr("no"));
}

TEST(ChatPrompt, RefusesWhatIsNoConversation) {
  const ChatPrompt prompt({.usual = "{{ messages[0].content }}", .tool_use = "", .special_tokens = {}});
  const ChatMessage message{.role = "user", .content = "a"};
  const std::vector<ChatMessage> messages{message};
  EXPECT_THAT(refusal(prompt, {}), HasSubstr("needs a message"));
  EXPECT_THAT(refusal(prompt, {ChatMessage{.role = "user", .content = "\xff"}}), HasSubstr("not UTF-8"));
  ChatMessage call = message;
  call.tool_calls.push_back({"", "f", "{\xff"});
  EXPECT_THAT(refusal(prompt, {call}), HasSubstr("not UTF-8"));
  for (const std::string tools : {"{}", "[", "1", " ", R"([], "messages": [])"}) {
    EXPECT_EQ(refusal(prompt, messages, {.tools = tools, .template_values = ""}),
              "tools are not JSON; accepted: an array")
        << tools;
  }
  for (const std::string values : {"[]", "{", "1", " ", R"({}, "messages": [])"}) {
    EXPECT_EQ(refusal(prompt, messages, {.tools = "", .template_values = values}),
              "template_values are not JSON; accepted: an object")
        << values;
  }
  EXPECT_EQ(refusal(prompt, messages, {.tools = "", .template_values = R"({"mess\u0061ges": []})"}),
            "template_values has 'messages', which has a place of its own");
  EXPECT_EQ(prompt.text(messages, {.tools = "", .template_values = " { } "}), "a");
  call.tool_calls[0].arguments = "";
  EXPECT_EQ(prompt.text(std::vector{call}), "a");
}

TEST(ChatPrompt, ContinuesTheLastMessage) {
  const ChatPrompt prompt({.usual = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
                                    "{% if add_generation_prompt %}[assistant]{% endif %}",
                           .tool_use = {},
                           .special_tokens = {}});
  const ChatPrompt trimming({.usual = "{% for m in messages %}{{ m.content | trim }}[end]{% endfor %}",
                             .tool_use = {},
                             .special_tokens = {}});
  const ChatPrompt hiding({.usual = "{{ messages[0].content }}", .tool_use = {}, .special_tokens = {}});
  const ChatOptions options{.tools = {}, .template_values = {}, .continues_last_message = true};
  std::vector<ChatMessage> messages{{.role = "user", .content = "a"}, {.role = "assistant", .content = "It is "}};
  EXPECT_EQ(prompt.text(messages, options), "[user]a[end][assistant]It is ");
  EXPECT_EQ(trimming.text(messages, options), "a[end]It is");
  EXPECT_THAT(refusal(hiding, messages, options),
              HasSubstr("continues_last_message is true, and the chat template does not show the content"));
  for (const ChatMessage& last :
       {ChatMessage{.role = "user", .content = "b"}, ChatMessage{.role = "assistant", .content = ""},
        ChatMessage{
            .role = "assistant", .content = "b", .tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}}}}) {
    messages.back() = last;
    EXPECT_THAT(refusal(prompt, messages, options),
                HasSubstr("the last message is none of the assistant with content and without calls"));
  }
}

}  // namespace
}  // namespace gpux::generation
