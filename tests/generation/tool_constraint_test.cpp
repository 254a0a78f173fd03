// The form of answers that have to call a tool. That no other text comes out of it: tests/cli/serve_chat_test.cpp.
#include "generation/tool_constraint.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/refusal.h"
#include "generation/answer_parser.h"
#include "generation/tool_call_formats.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using test::refusal;
using testing::HasSubstr;

const std::vector<ToolFunction> functions{{"look_up", R"({"properties": {"b": {"type": "string"}, "a": {}}})"},
                                          {"now", ""}};

AnswerParts calls(ToolCallStyle style, bool allows_several = true) {
  return {.format = {.reasoning_begin = "<think>", .reasoning_end = "</think>", .tool_calls = style},
          .functions = functions,
          .allows_several = allows_several};
}

std::string frame(const AnswerParts& parts) {
  return constrained_answer(parts).constraint.frame;
}

TEST(ToolConstraint, WritesCallsAsTheModelDoes) {
  const ConstrainedAnswer hermes = constrained_answer(calls(ToolCallStyle::hermes));
  EXPECT_EQ(hermes.constraint.kind, OutputConstraint::Kind::grammar);
  EXPECT_EQ(hermes.constraint.text, "");
  EXPECT_EQ(hermes.constraint.frame,
            R"(start: calls
calls: call ( "\n" call)*
call: "<tool_call>\n{\"name\": \"look_up\", \"arguments\": " arguments_0 "}\n</tool_call>" | "<tool_call>\n{\"name\": \"now\", \"arguments\": " arguments_1 "}\n</tool_call>"
arguments_0: %json {"properties":{"b":{"type":"string"},"a":{}},"type":"object"}
arguments_1: %json {"type": "object", "properties": {}, "additionalProperties": false}
)");
  EXPECT_EQ(hermes.format.tool_calls, ToolCallStyle::hermes);
  EXPECT_EQ(hermes.format.reasoning_end, "");
  EXPECT_THAT(frame(calls(ToolCallStyle::llama, false)), HasSubstr("calls: call\n"));
  EXPECT_THAT(frame(calls(ToolCallStyle::llama)), HasSubstr(R"(\"parameters\": )"));
  const ConstrainedAnswer other = constrained_answer(calls(ToolCallStyle::none));
  EXPECT_THAT(other.constraint.frame, HasSubstr("calls: call ( \"; \" call)*\n"));
  EXPECT_THAT(other.constraint.frame, HasSubstr(R"(\"arguments\": )"));
  EXPECT_EQ(other.format.tool_calls, ToolCallStyle::llama);
  EXPECT_EQ(constrained_answer(calls(ToolCallStyle::gemma)).format.tool_calls, ToolCallStyle::llama);
}

TEST(ToolConstraint, NamesSpecialTokensByTheirIds) {
  AnswerParts parts = calls(ToolCallStyle::kimi);
  parts.tokens = {{"<|tool_call_begin|>", 7}, {"<|tool_call_argument_begin|>", 8}, {"<|tool_call_end|>", 9}};
  EXPECT_THAT(frame(parts), HasSubstr("calls: \"<|tool_calls_section_begin|>\" call ( call)* "
                                      "\"<|tool_calls_section_end|>\"\n"));
  EXPECT_THAT(frame(parts), HasSubstr("call: <[7]> \"functions.look_up:\" /[0-9]{1,3}/ <[8]> arguments_0 <[9]> | "));
}

TEST(ToolConstraint, LeavesRoomForReasoning) {
  AnswerParts parts = calls(ToolCallStyle::hermes, false);
  parts.reasoning = ReasoningPart::may_come;
  EXPECT_THAT(frame(parts), testing::StartsWith(R"(start: thinking? calls
thinking: "<think>" reasoning /[ \t\r\n]{1,8}/?
reasoning[lazy]: /(.|\n)*<\/think>/
calls: call
)"));
  EXPECT_EQ(constrained_answer(parts).format.reasoning_end, "</think>");
  parts.reasoning = ReasoningPart::is_open;
  parts.format.reasoning_end = "[/THINK]";
  EXPECT_THAT(frame(parts), testing::StartsWith(R"(start: thinking calls
thinking: reasoning /[ \t\r\n]{1,8}/?
reasoning[lazy]: /(.|\n)*\[\/THINK\]/
)"));
  parts.tokens = {{"[/THINK]", 5}};
  EXPECT_THAT(frame(parts), testing::StartsWith(R"(start: thinking calls
thinking: REASONING <[5]> /[ \t\r\n]{1,8}/?
REASONING: /(.|\n)*/
)"));
}

TEST(ToolConstraint, LetsATextOfTheFormThroughInsteadOfCalls) {
  AnswerParts parts = calls(ToolCallStyle::hermes, false);
  parts.form = {OutputConstraint::Kind::json_schema, "{}"};
  const ConstrainedAnswer both = constrained_answer(parts);
  EXPECT_EQ(both.constraint.kind, OutputConstraint::Kind::json_schema);
  EXPECT_EQ(both.constraint.text, "{}");
  EXPECT_THAT(both.constraint.frame, testing::StartsWith("start: (calls | form)\n"));
  EXPECT_THAT(both.constraint.frame, HasSubstr("\narguments: %json {\"type\": \"object\"}\nform: @form\n"));
  parts.functions = {};
  EXPECT_EQ(constrained_answer(parts).constraint, parts.form) << "the form is all that there is";
  parts.reasoning = ReasoningPart::may_come;
  EXPECT_THAT(frame(parts), testing::StartsWith("start: thinking? form\n"));
  parts.reasoning = ReasoningPart::none;
  parts.format.content_begin = "<|START_RESPONSE|>";
  parts.format.content_end = "<|END_RESPONSE|>";
  parts.tokens = {{"<|START_RESPONSE|>", 3}};
  EXPECT_EQ(frame(parts), "start: form\nform: <[3]> @form \"<|END_RESPONSE|>\"\n");
}

TEST(ToolConstraint, WritesOneCallInAMessageOfAChannel) {
  AnswerParts parts = calls(ToolCallStyle::harmony);
  parts.format = answer_format_of("<|channel|><|message|>");
  parts.reasoning = ReasoningPart::may_come;
  parts.tokens = {{"<|channel|>", 1}, {"<|message|>", 2}, {"<|end|>", 3}, {"<|start|>", 4}, {"<|constrain|>", 5}};
  EXPECT_THAT(frame(parts), testing::StartsWith(
                                R"(start: thinking? calls
thinking: <[1]> "analysis" <[2]> REASONING <[3]> <[4]> "assistant"
REASONING: /(.|\n)*/
calls: call
call: <[1]> "commentary to=functions.look_up " <[5]> "json" <[2]> arguments_0 | )"));
}

// What the form allows is what the parser reads.
TEST(ToolConstraint, IsReadByTheParser) {
  std::size_t tried = 0;
  for (const ToolCallFormat& style : tool_call_formats()) {
    SCOPED_TRACE(style.name);
    AnswerParts parts = calls(style.style);
    if (style.style == ToolCallStyle::harmony) parts.format = answer_format_of("<|channel|><|message|>");
    parts.reasoning = ReasoningPart::may_come;
    const ConstrainedAnswer answer = constrained_answer(parts);
    const CallWriting& writing =
        tool_call_format(style.style == ToolCallStyle::gemma ? ToolCallStyle::none : style.style).writing;
    const auto call = [&](std::string_view name, std::string_view arguments, std::string_view number) {
      std::string text = std::string(writing.begin) + std::string(name) + std::string(writing.arguments) +
                         std::string(arguments) + std::string(writing.end);
      if (const std::size_t at = text.find('#'); at != std::string::npos) text.replace(at, 1, number);
      return text;
    };
    std::string text = std::string(writing.section_begin) + call("now", "{}", "0");
    if (writing.allows_several) text += std::string(writing.separator) + call("look_up", R"({"b":"x"})", "1");
    text += writing.section_end;
    for (const bool thinks : {false, true}) {
      AnswerParser parser({.format = answer.format, .functions = {"look_up", "now"}});
      const std::string thought = answer.format.reasoning_begin + "why" + answer.format.reasoning_end;
      std::vector<AnswerDelta> deltas = parser.add(thinks ? thought + text : text);
      for (AnswerDelta& rest : parser.finish()) deltas.push_back(std::move(rest));
      if (thinks) {
        ASSERT_EQ(deltas.front().kind, AnswerDelta::Kind::reasoning);
        EXPECT_EQ(deltas.front().text, "why");
        deltas.erase(deltas.begin());
      }
      ASSERT_EQ(deltas.size(), writing.allows_several ? 4U : 2U) << text;
      EXPECT_EQ(deltas[0].name, "now");
      EXPECT_EQ(deltas[1].text, "{}");
      if (deltas.size() == 4) {
        EXPECT_EQ(deltas[2].name, "look_up");
        EXPECT_EQ(deltas[3].text, R"({"b":"x"})");
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 30U);
}

TEST(ToolConstraint, RefusesWhatIsNoToolAndNoSchemaOfArguments) {
  const auto refused = [](const ToolFunction& function) {
    return refusal([&] { (void)constrained_answer({.format = {}, .functions = {&function, 1}}); });
  };
  EXPECT_THAT(refused({"a\"b", ""}), HasSubstr("a tool's name is not of 1 to 64 letters"));
  EXPECT_THAT(refused({std::string(65, 'a'), ""}), HasSubstr("a tool's name is not"));
  EXPECT_THAT(refused({"f", "[]"}), HasSubstr("the parameters of the tool 'f' are no object; accepted: a JSON schema"));
  EXPECT_THAT(refused({"f", R"({"type": "array"})"}), HasSubstr("have another type"));
}

}  // namespace
}  // namespace gpux::generation
