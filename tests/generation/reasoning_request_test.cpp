// How much a model thinks, in the variables that its template reads.
#include "generation/reasoning_request.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/refusal.h"
#include "generation/chat_prompt.h"

namespace gpux::generation {
namespace {

using enum ReasoningEffort;
using test::refusal;
using testing::HasSubstr;

const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
const std::string always = "{{ '<think>' }}";
const std::string harmony = "{# <|channel|> #}{{ reasoning_effort }}";
const std::string levels = "{% if reasoning_effort is defined %}{{ reasoning_effort }}{% endif %}";

std::string published(const std::string& name) {
  return read_file(std::string(GPUX_SOURCE_DIR) + "/tests/text/chat/templates/" + name + ".jinja");
}

std::string variables(ReasoningEffort effort, const std::string& text) {
  std::string all;
  for (const TemplateVariable& one : reasoning_variables(effort, text)) {
    all += fmt::format("{}{}={}", all.empty() ? "" : " ", one.name, one.value);
  }
  return all;
}

TEST(ReasoningRequest, IsWhatTheTemplateReads) {
  struct Row {
    const char* what;
    std::string text;
    ReasoningEffort effort;
    const char* expected;
  };

  for (const Row& row : {
           Row{"Qwen 3", published("qwen3"), none, "enable_thinking=false"},
           Row{"Qwen 3", published("qwen3"), minimal, "enable_thinking=false"},
           Row{"Qwen 3", published("qwen3"), low, "enable_thinking=true"},
           Row{"Qwen 3", published("qwen3"), usual, "enable_thinking=true"},
           Row{"SmolLM3", published("smollm3"), xhigh, "enable_thinking=true"},
           Row{"Granite 3", published("granite3"), none, "thinking=false"},
           Row{"Granite 3", published("granite3"), high, "thinking=true"},
           Row{"gpt-oss", published("gpt-oss"), low, "reasoning_effort=\"low\""},
           Row{"gpt-oss", published("gpt-oss"), minimal, "reasoning_effort=\"low\""},
           Row{"gpt-oss", published("gpt-oss"), xhigh, "reasoning_effort=\"high\""},
           Row{"gpt-oss", published("gpt-oss"), usual, ""},
           Row{"levels", levels, none, "reasoning_effort=\"none\""},
           Row{"levels", levels, xhigh, "reasoning_effort=\"xhigh\""},
           Row{"levels and a switch", levels + "{{ enable_thinking }}", medium,
               "enable_thinking=true reasoning_effort=\"medium\""},
           Row{"levels and a switch", levels + "{{ enable_thinking }}", none, "enable_thinking=false"},
           Row{"no thinking", plain, none, ""},
           Row{"always thinking", always, usual, ""},
       }) {
    EXPECT_EQ(variables(row.effort, row.text), row.expected) << row.what;
  }
}

TEST(ReasoningRequest, IsRefusedWhereTheTemplateKnowsNoSuchEffort) {
  const auto refused = [](ReasoningEffort effort, const std::string& text) {
    return refusal([&] { (void)reasoning_variables(effort, text); });
  };
  EXPECT_EQ(refused(low, plain),
            "reasoning is 'low', and the model does not think before it answers; accepted: null, "
            "none, false");
  EXPECT_THAT(refused(usual, plain), HasSubstr("reasoning is 'true', and the model does not think"));
  EXPECT_THAT(refused(none, always), HasSubstr("always thinks before it answers; accepted: null, true"));
  EXPECT_THAT(refused(medium, always), HasSubstr("has no levels of thinking; accepted: null, true"));
  EXPECT_THAT(refused(none, harmony), HasSubstr("always thinks before it answers; accepted: low, medium, high"));
}

TEST(ReasoningRequest, KnowsWhichVariablesAreRead) {
  for (const char* text : {"{{ thinking }}", "{% if thinking is defined %}", "{%- if not thinking -%}",
                           "{{ f(thinking=thinking) }}", "{% set x = thinking %}", "{{ '}' ~ thinking }}",
                           "{{ \"thinking\" }}{{ a['b'] or thinking }}", "{% if thinking == 'a' %}"}) {
    EXPECT_TRUE(reads_variable(text, "thinking")) << text;
  }
  for (const char* text : {"thinking", "{# {{ thinking }} #}", "{{ message.thinking }}", "{{ message['thinking'] }}",
                           "{{ 'it\\'s thinking' }}", "{{ enable_thinking }}", "{% set thinking = 1 %}",
                           "{{ f(thinking=1) }}", "{ thinking }", "{", "{{", "{{ 'thinking"}) {
    EXPECT_FALSE(reads_variable(text, "thinking")) << text;
  }
}

TEST(ReasoningRequest, NamesEfforts) {
  EXPECT_EQ(effort_named("none"), none);
  EXPECT_EQ(effort_named("xhigh"), xhigh);
  EXPECT_EQ(effort_named("usual"), std::nullopt);
  EXPECT_EQ(effort_named(""), std::nullopt);
}

TEST(ReasoningRequest, GivesWayToVariablesOfTheSameName) {
  const ChatPrompt prompt({.usual = "{{ enable_thinking }} {{ other }}", .tool_use = {}, .special_tokens = {}});
  const std::vector<ChatMessage> messages{{.role = "user", .content = "a"}};
  ChatOptions options{.tools = {}, .template_values = R"({"other": 1})", .reasoning = none};
  EXPECT_EQ(prompt.text(messages, options), "False 1");
  options.template_values = R"({"enable_thinking": true})";
  EXPECT_EQ(prompt.text(messages, options), "True ");
  options = {.tools = {}, .template_values = {}};
  EXPECT_EQ(prompt.text(messages, options), " ");
}

}  // namespace
}  // namespace gpux::generation
