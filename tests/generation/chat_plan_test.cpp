// What a conversation becomes, for the library, the program and each protocol.
#include "generation/chat_plan.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/refusal.h"
#include "gpux/error.h"
#include "text/token_words.h"

namespace gpux::generation {
namespace {

using Kind = OutputConstraint::Kind;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* thinking_template =
    "{# <think> </think> <tool_call> #}{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if tools %} with tools{% endif %}{% if opens %}<think>{% endif %}";
constexpr const char* plain_template =
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %} with tools{% endif %}";
constexpr const char* tools =
    R"([{"type": "function", "function": {"name": "add", "parameters": {"properties": {"z": {}, "a": {}}}}},
        {"name": "now"}])";

ChatPrompt prompt_of(const char* text) {
  return ChatPrompt({.usual = text, .tool_use = {}, .special_tokens = {}});
}

// Whose added tokens are special.
text::Tokenizer tokenizer_with(const std::vector<std::string>& special) {
  nlohmann::json tokenizer = nlohmann::json::parse(test::made_tokenizer("metaspace", {}));
  std::size_t id = text::Tokenizer::from_json(tokenizer.dump()).vocabulary_size();
  for (const std::string& content : special) {
    nlohmann::json token = tokenizer["added_tokens"][0];
    token["content"] = content;
    token["id"] = id++;
    tokenizer["added_tokens"].push_back(token);
  }
  return text::Tokenizer::from_json(tokenizer.dump());
}

ChatRequest asking(ChatOptions options, Kind constraint = Kind::none, bool constrains_content = false) {
  ChatRequest request{.messages = {{.role = "user", .content = "hi"}}, .options = std::move(options)};
  request.settings.constraint = {constraint, constraint == Kind::regex ? "a" : ""};
  request.settings.seed = 7;
  request.constrains_content = constrains_content;
  return request;
}

const ChatOptions opens{.tools = {}, .template_values = R"({"opens": true})"};

ChatOptions choosing(ToolChoice choice, std::string name = {}, std::string values = {}) {
  return {.tools = tools, .template_values = std::move(values), .tool_choice = choice, .tool_name = std::move(name)};
}

TEST(ChatPlan, SaysHowAnAnswerIsRead) {
  struct Row {
    const char* what;
    const char* text;
    ChatRequest request;
    bool reads_reasoning, begins_in_reasoning;
    ToolCallStyle calls;
    std::vector<std::string> functions;
  };

  const std::string open_values = opens.template_values;
  const std::vector<std::string> both{"add", "now"};
  for (Row& row : std::vector<Row>{
           {"plain", plain_template, asking({}), false, false, ToolCallStyle::none, {}},
           {"thinking", thinking_template, asking({}), true, false, ToolCallStyle::none, {}},
           {"opened", thinking_template, asking(opens), true, true, ToolCallStyle::none, {}},
           {"tools", thinking_template, asking(choosing(ToolChoice::automatic)), true, false, ToolCallStyle::hermes,
            both},
           {"tools without a known form", plain_template, asking(choosing(ToolChoice::automatic)), false, false,
            ToolCallStyle::none, both},
           {"no call", thinking_template, asking(choosing(ToolChoice::none)), true, false, ToolCallStyle::none, {}},
           {"a form", thinking_template, asking(opens, Kind::regex), true, true, ToolCallStyle::none, {}},
           {"a form of the content",
            thinking_template,
            asking(opens, Kind::regex, true),
            true,
            true,
            ToolCallStyle::none,
            {}},
           {"a form of the content, or calls", thinking_template,
            asking(choosing(ToolChoice::automatic), Kind::regex, true), true, false, ToolCallStyle::hermes, both},
           {"a form of the content, or calls where no form of them is known", plain_template,
            asking(choosing(ToolChoice::automatic), Kind::regex, true), false, false, ToolCallStyle::llama, both},
           {"a form of a content that a call comes instead of", thinking_template,
            asking(choosing(ToolChoice::required), Kind::regex, true), true, false, ToolCallStyle::hermes, both},
           {"a form of the whole text", thinking_template, asking(choosing(ToolChoice::automatic), Kind::regex), true,
            false, ToolCallStyle::hermes, both},
           {"a call", thinking_template, asking(choosing(ToolChoice::required)), true, false, ToolCallStyle::hermes,
            both},
           {"a call where no form is known", plain_template, asking(choosing(ToolChoice::required)), false, false,
            ToolCallStyle::llama, both},
           {"a named call",
            thinking_template,
            asking(choosing(ToolChoice::required, "now", open_values)),
            true,
            true,
            ToolCallStyle::hermes,
            {"now"}},
       }) {
    SCOPED_TRACE(row.what);
    const bool is_forced = row.request.options.tool_choice == ToolChoice::required;
    const bool is_named = !row.request.options.tool_name.empty();
    const OutputConstraint given = row.request.settings.constraint;
    const bool constrains = row.request.constrains_content;
    const ChatPlan plan = plan_chat(prompt_of(row.text), tokenizer_with({}), std::move(row.request));
    EXPECT_EQ(plan.answer.format.reasoning_end, row.reads_reasoning ? "</think>" : "");
    EXPECT_EQ(plan.answer.begins_in_reasoning, row.begins_in_reasoning);
    EXPECT_EQ(plan.answer.format.tool_calls, row.calls);
    EXPECT_EQ(plan.answer.functions, row.functions);
    const bool is_alternative = !is_forced && constrains && !row.functions.empty();
    EXPECT_EQ(plan.answer.is_enforced, is_forced || is_alternative);
    EXPECT_EQ(plan.answer.may_have_form, is_alternative);
    EXPECT_EQ(plan.answer.allows_several, !is_named);
    EXPECT_EQ(plan.answer.id_seed, 7U);
    EXPECT_TRUE(plan.request.is_answer);
    if (is_forced) {
      EXPECT_EQ(plan.request.settings.constraint.kind, Kind::grammar);
    } else {
      EXPECT_EQ(plan.request.settings.constraint.kind, given.kind);
      EXPECT_EQ(plan.request.settings.constraint.text, given.text);
      EXPECT_EQ(plan.request.settings.constraint.frame.empty(), !constrains);
    }
  }
}

TEST(ChatPlan, ForcesCalls) {
  const auto grammar = [](const char* text, ChatRequest request, const std::vector<std::string>& special = {}) {
    return plan_chat(prompt_of(text), tokenizer_with(special), std::move(request)).request.settings.constraint.frame;
  };
  const ChatRequest any = asking(choosing(ToolChoice::required));
  EXPECT_THAT(grammar(plain_template, any), StartsWith("start: calls\ncalls: call ( \"; \" call)*\n"));
  EXPECT_THAT(grammar(plain_template, any), HasSubstr(R"(%json {"properties":{"z":{},"a":{}},"type":"object"})"));
  EXPECT_THAT(grammar(thinking_template, any), StartsWith("start: thinking? calls\n"));
  EXPECT_THAT(grammar(thinking_template, any), HasSubstr("\ncall: \"<tool_call>"));
  ChatRequest one = any;
  one.options.allows_several_calls = false;
  EXPECT_THAT(grammar(plain_template, one), HasSubstr("\ncalls: call\n"));
  // Reasoning that the prompt has opened has to end.
  EXPECT_THAT(grammar(thinking_template, asking(choosing(ToolChoice::required, "now", opens.template_values))),
              StartsWith("start: thinking calls\n"));
  // Special tokens are no texts.
  EXPECT_THAT(grammar(thinking_template, any, {"<tool_call>"}), HasSubstr("\ncall: <["));
  EXPECT_THAT(grammar(thinking_template, any, {"</think>"}), HasSubstr("thinking: \"<think>\" REASONING <["));
}

// A template that has closed the reasoning, as of Qwen 3 with enable_thinking false.
TEST(ChatPlan, LeavesNoRoomForReasoningThatThePromptHasEnded) {
  const ChatPlan plan = plan_chat(prompt_of("{# <tool_call> #}{{ messages[0].content }}<think>\n\n</think>\n\n"),
                                  tokenizer_with({}), asking({}, Kind::regex, true));
  EXPECT_EQ(plan.request.settings.constraint.frame, "");
  EXPECT_EQ(plan.answer.format.reasoning_end, "");
}

TEST(ChatPlan, ShowsTheSpecialTokensThatSeparateWhatIsRead) {
  const text::Tokenizer tokenizer = tokenizer_with({"</think>", "<tool_call>"});
  const std::uint32_t end_of_thought = *tokenizer.id("</think>"), call = *tokenizer.id("<tool_call>");
  const auto shown = [&](ChatRequest request) {
    return plan_chat(prompt_of(thinking_template), tokenizer, std::move(request)).request.shown_tokens;
  };
  EXPECT_THAT(shown(asking({})), ElementsAre(end_of_thought));
  EXPECT_THAT(shown(asking(choosing(ToolChoice::automatic))), testing::UnorderedElementsAre(end_of_thought, call));
  EXPECT_THAT(shown(asking(choosing(ToolChoice::none))), ElementsAre(end_of_thought));
  EXPECT_THAT(shown(asking(choosing(ToolChoice::required))), testing::UnorderedElementsAre(end_of_thought, call));
  EXPECT_THAT(shown(asking({}, Kind::regex, true)), ElementsAre(end_of_thought));
}

// Behind a call the answer would be made up.
TEST(ChatPlan, EndsAnswersOfChannelsAtTheirCalls) {
  const text::Tokenizer tokenizer = tokenizer_with({"<|channel|>", "<|message|>", "<|call|>"});
  const ChatPlan plan = plan_chat(prompt_of("{# <|channel|><|message|> #}{{ messages[0].content }}{{ tools }}"),
                                  tokenizer, asking(choosing(ToolChoice::automatic)));
  EXPECT_THAT(plan.request.settings.stop_tokens, ElementsAre(*tokenizer.id("<|call|>")));
  EXPECT_TRUE(plan.answer.format.has_channels);
  EXPECT_THAT(plan_chat(prompt_of(plain_template), tokenizer, asking({})).request.settings.stop_tokens,
              testing::IsEmpty());
}

TEST(ChatPlan, LetsThePromptBeRefusedBeforeItBecomesTokens) {
  std::string seen;
  const text::Tokenizer tokenizer = tokenizer_with({});
  const ChatPlan plan = plan_chat(prompt_of(plain_template), tokenizer, asking(choosing(ToolChoice::automatic)),
                                  [&](std::string_view prompt) { seen = prompt; });
  EXPECT_EQ(seen, "hi with tools");
  EXPECT_EQ(plan.request.prompt, prompt_tokens(tokenizer, seen, false));
  (void)plan_chat(prompt_of(plain_template), tokenizer, asking(choosing(ToolChoice::none)),
                  [&](std::string_view prompt) { seen = prompt; });
  EXPECT_EQ(seen, "hi");
  EXPECT_THAT(refusal([&] {
                (void)plan_chat(prompt_of(plain_template), tokenizer, asking({}),
                                [](std::string_view /*prompt*/) { throw Error(ErrorCode::invalid_input, "too long"); });
              }),
              HasSubstr("too long"));
}

TEST(ChatPlan, RefusesByName) {
  struct Row {
    ChatRequest request;
    const char* said;
  };

  ChatRequest no_tools = asking({});
  no_tools.options.tool_choice = ToolChoice::required;
  ChatRequest no_object = asking(choosing(ToolChoice::required));
  no_object.options.tools = R"([{"name": "f", "parameters": {"type": "string"}}])";
  ChatRequest no_function = asking(choosing(ToolChoice::automatic));
  no_function.options.tools = R"([{"name": "f"}, {"function": {}}])";
  for (Row& row : std::vector<Row>{
           {no_tools, "a call is required, and there are no tools"},
           {asking(choosing(ToolChoice::required, "sub")), "tool_name is 'sub', which is none of the tools"},
           {asking(choosing(ToolChoice::required), Kind::regex), "a call is required, and a constraint is there"},
           {no_object, "the parameters of the tool 'f' have another type"},
           {no_function, "tools[1] is no function"},
       }) {
    EXPECT_THAT(
        refusal([&] { (void)plan_chat(prompt_of(plain_template), tokenizer_with({}), std::move(row.request)); }),
        HasSubstr(row.said));
  }
  try {
    (void)plan_chat(prompt_of(plain_template), tokenizer_with({}), asking(choosing(ToolChoice::automatic, "add")));
    ADD_FAILURE() << "a name without effect was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), StartsWith("tool_name is 'add', and no call is required"));
  }
}

}  // namespace
}  // namespace gpux::generation
