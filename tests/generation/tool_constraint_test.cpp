// The form of answers that have to call a tool. That no other text comes out of it: tests/cli/serve_chat_test.cpp.
#include "generation/tool_constraint.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/refusal.h"
#include "generation/answer_parser.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using test::refusal;
using testing::HasSubstr;

const std::vector<ToolFunction> functions{{"look_up", R"({"properties": {"b": {"type": "string"}, "a": {}}})"},
                                          {"now", ""}};

TEST(ToolConstraint, WritesCallsAsTheModelDoes) {
  const ToolCallForm hermes = tool_call_form(functions, ToolCallStyle::hermes, true);
  EXPECT_EQ(hermes.constraint.kind, OutputConstraint::Kind::grammar);
  EXPECT_EQ(hermes.constraint.text,
            R"(start: "<tool_call>\n" call "\n</tool_call>" ("\n<tool_call>\n" call "\n</tool_call>")*
call: "{\"name\": \"look_up\", \"arguments\": " arguments_0 "}" | "{\"name\": \"now\", \"arguments\": " arguments_1 "}"
arguments_0: %json {"properties":{"b":{"type":"string"},"a":{}},"type":"object"}
arguments_1: %json {"type": "object", "properties": {}, "additionalProperties": false}
)");
  EXPECT_EQ(hermes.format.tool_calls, ToolCallStyle::hermes);
  const ToolCallForm llama = tool_call_form(functions, ToolCallStyle::llama, false);
  EXPECT_THAT(llama.constraint.text, HasSubstr("start: call\n"));
  EXPECT_THAT(llama.constraint.text, HasSubstr(R"(\"parameters\": )"));
  const ToolCallForm other = tool_call_form(functions, ToolCallStyle::mistral, true);
  EXPECT_THAT(other.constraint.text, HasSubstr("start: call (\"; \" call)*\n"));
  EXPECT_THAT(other.constraint.text, HasSubstr(R"(\"arguments\": )"));
  EXPECT_EQ(other.format.tool_calls, ToolCallStyle::llama);
}

TEST(ToolConstraint, LeavesRoomForReasoning) {
  const ReasoningPart think{.begin = "<think>", .end = "</think>"};
  const ToolCallForm form = tool_call_form(functions, ToolCallStyle::hermes, false, think);
  EXPECT_THAT(form.constraint.text, testing::StartsWith(R"(start: thinking? "<tool_call>\n" call "\n</tool_call>"
thinking: "<think>" reasoning /[ \t\r\n]{1,8}/?
reasoning[lazy]: /(.|\n)*<\/think>/
call: )"));
  EXPECT_EQ(form.format.reasoning_begin, "<think>");
  EXPECT_EQ(form.format.reasoning_end, "</think>");
  ReasoningPart open{.begin = "[THINK]", .end = "[/THINK]", .is_open = true};
  EXPECT_THAT(tool_call_form(functions, ToolCallStyle::none, false, open).constraint.text,
              testing::StartsWith(R"(start: thinking call
thinking: reasoning /[ \t\r\n]{1,8}/?
reasoning[lazy]: /(.|\n)*\[\/THINK\]/
call: )"));
}

// What the form allows is what the parser reads.
TEST(ToolConstraint, IsReadByTheParser) {
  const std::string call = R"({"name": "now", "arguments": {}})",
                    other = R"({"name": "look_up", "arguments": {"b":"x"}})";
  const std::vector<std::pair<ToolCallStyle, std::string>> answers{
      {ToolCallStyle::hermes, "<tool_call>\n" + call + "\n</tool_call>\n<tool_call>\n" + other + "\n</tool_call>"},
      {ToolCallStyle::none, call + "; " + other}};
  const ReasoningPart think{.begin = "<think>", .end = "</think>"};
  for (const auto& [style, text] : answers) {
    for (const bool thinks : {false, true}) {
      AnswerParser parser(
          {.format = tool_call_form(functions, style, true, think).format, .functions = {"look_up", "now"}});
      std::vector<AnswerDelta> deltas = parser.add(thinks ? "<think>\nwhy\n</think>\n\n" + text : text);
      for (AnswerDelta& rest : parser.finish()) deltas.push_back(std::move(rest));
      if (thinks) {
        EXPECT_EQ(deltas.front().kind, AnswerDelta::Kind::reasoning);
        EXPECT_EQ(deltas.front().text, "why");
        deltas.erase(deltas.begin());
      }
      ASSERT_EQ(deltas.size(), 4U) << text;
      EXPECT_EQ(deltas[0].name, "now");
      EXPECT_EQ(deltas[2].name, "look_up");
      EXPECT_EQ(deltas[3].text, R"({"b":"x"})");
    }
  }
}

TEST(ToolConstraint, RefusesWhatIsNoToolAndNoSchemaOfArguments) {
  const auto refused = [](const ToolFunction& function) {
    return refusal([&] { (void)tool_call_form(std::vector{function}, ToolCallStyle::none, true); });
  };
  EXPECT_THAT(refused({"a\"b", ""}), HasSubstr("a tool's name is not of 1 to 64 letters"));
  EXPECT_THAT(refused({std::string(65, 'a'), ""}), HasSubstr("a tool's name is not"));
  EXPECT_THAT(refused({"f", "[]"}), HasSubstr("the parameters of the tool 'f' are no object; accepted: a JSON schema"));
  EXPECT_THAT(refused({"f", R"({"type": "array"})"}), HasSubstr("have another type"));
}

}  // namespace
}  // namespace gpux::generation
