#include "generation/answer_parser.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generation/answer_format.h"
#include "generation/json_extent.h"
#include "generation/tool_call_text.h"

namespace gpux::generation {
namespace {

using testing::ElementsAre;

const AnswerFormat hermes{"<think>", "</think>", ToolCallStyle::hermes};
const AnswerFormat mistral{"[THINK]", "[/THINK]", ToolCallStyle::mistral};
const AnswerFormat phi{"", "", ToolCallStyle::phi};
const AnswerFormat llama{"", "", ToolCallStyle::llama};
const AnswerFormat gemma{"", "", ToolCallStyle::gemma};
const AnswerFormat thinking{"<think>", "</think>", ToolCallStyle::none};
const AnswerFormat coder{"<think>", "</think>", ToolCallStyle::coder};
const AnswerFormat seed{"<seed:think>", "</seed:think>", ToolCallStyle::seed};
const AnswerFormat minimax{"<think>", "</think>", ToolCallStyle::minimax};
const AnswerFormat glm{"<think>", "</think>", ToolCallStyle::glm};
const AnswerFormat kimi{"", "", ToolCallStyle::kimi};
const AnswerFormat deepseek_v3{"<think>", "</think>", ToolCallStyle::deepseek_v3};
const AnswerFormat deepseek{"<think>", "</think>", ToolCallStyle::deepseek};
const AnswerFormat command{"<|START_THINKING|>", "<|END_THINKING|>", ToolCallStyle::command, "<|START_RESPONSE|>",
                           "<|END_RESPONSE|>"};
const AnswerFormat lfm{"", "", ToolCallStyle::lfm};
const AnswerFormat apriel{"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", ToolCallStyle::apriel, "",
                          "[END FINAL RESPONSE]"};
const AnswerFormat harmony{"<|channel|>analysis<|message|>",
                           "<|end|><|start|>assistant",
                           ToolCallStyle::harmony,
                           "<|channel|>final<|message|>",
                           "",
                           true};

/// An answer's parts as one text: reasoning in (), calls in [id name arguments], ids of the parser's own as *.
std::string joined(const std::vector<AnswerDelta>& deltas, std::uint64_t seed) {
  std::string reasoning, content, calls;
  for (const AnswerDelta& delta : deltas) {
    switch (delta.kind) {
      case AnswerDelta::Kind::reasoning:
        EXPECT_TRUE(content.empty() && calls.empty()) << "reasoning behind the answer";
        reasoning += delta.text;
        break;
      case AnswerDelta::Kind::content:
        content += delta.text;
        break;
      case AnswerDelta::Kind::tool_call:
        if (!calls.empty()) calls += ']';
        calls += fmt::format("[{} {} ", delta.id == tool_call_id(seed, delta.index) ? "*" : delta.id, delta.name);
        break;
      case AnswerDelta::Kind::arguments:
        calls += delta.text;
        break;
    }
  }
  if (!calls.empty()) calls += ']';
  return fmt::format("{}{}{}", reasoning.empty() ? "" : "(" + reasoning + ")", content, calls);
}

struct Given {
  AnswerFormat format;
  std::string text;
  std::string expected;
  bool begins_in_reasoning = false;
  std::vector<std::string> functions = {"weather", "find", "a.b"};
  bool may_have_form = false;
};

// Of weather and find.
const std::vector<std::string> parameters{
    R"({"properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "sure": {"type": "boolean"},
        "list": {"type": "array"}, "more": {"anyOf": [{"$ref": "#/$defs/more"}, {"type": "null"}]},
        "share": {"type": ["number", "string"]}}, "$defs": {"more": {"type": "object"}}})",
    "{}"};

std::string read(const Given& given, const std::vector<std::string_view>& pieces) {
  AnswerParser parser({.format = given.format,
                       .functions = given.functions,
                       .begins_in_reasoning = given.begins_in_reasoning,
                       .id_seed = 7,
                       .parameters = parameters,
                       .may_have_form = given.may_have_form});
  std::vector<AnswerDelta> all;
  const auto take = [&](std::vector<AnswerDelta> deltas) {
    for (AnswerDelta& delta : deltas) all.push_back(std::move(delta));
  };
  for (const std::string_view piece : pieces) take(parser.add(piece));
  take(parser.finish());
  EXPECT_TRUE(parser.finish().empty());
  return joined(all, 7);
}

std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t size = 1;
  while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xc0U) == 0x80U) ++size;
  return text.substr(at, size);
}

/// However the text is split: whole, in two at each place, and in characters.
void expect_read(const Given& given) {
  SCOPED_TRACE(fmt::format("{} {}", to_string(given.format.tool_calls), given.text));
  EXPECT_EQ(read(given, {given.text}), given.expected);
  std::vector<std::string_view> characters;
  const std::string_view text = given.text;
  for (std::size_t at = 0; at < text.size(); at += characters.back().size()) {
    characters.push_back(character_at(text, at));
    EXPECT_EQ(read(given, {text.substr(0, at), text.substr(at)}), given.expected) << "split at " << at;
  }
  EXPECT_EQ(read(given, characters), given.expected);
}

TEST(AnswerParser, SeparatesReasoning) {
  const std::vector<Given> table{
      {thinking, "Hello", "Hello"},
      {thinking, "", ""},
      {thinking, " \n ", " \n "},
      {thinking, "<think>\nWhy?\n\nBecause.\n</think>\n\nHello <think>no</think>",
       "(Why?\n\nBecause.)Hello <think>no</think>"},
      {thinking, "\n <think>a</think>b", "(a)b"},
      {thinking, "<think></think>\n\nb", "b"},
      {thinking, "<think>a", "(a)"},
      {thinking, "<think>a </th", "(a </th)"},
      {thinking, "<think>a </think", "(a </think)"},
      {thinking, "<thin", "<thin"},
      {thinking, "<thinking>a", "<thinking>a"},
      {thinking, "a</think>b", "a</think>b"},
      {thinking, "a </think>\n b", "(a)b", true},
      {thinking, "<think>\na </think>\n b", "(a)b", true},
      {thinking, "a", "(a)", true},
      {thinking, "  a\n", "(a\n)", true},
      {thinking, "<think>ü👩‍👧</think> é", "(ü👩‍👧)é"},
      {mistral, "[THINK]a[/THINK]b", "(a)b"},
      {phi, "<think>a</think>b", "<think>a</think>b"},
  };
  for (const Given& given : table) expect_read(given);
}

TEST(AnswerParser, SeparatesCalls) {
  const std::vector<Given> table{
      {hermes, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>",
       "[* weather {\"city\": \"Zürich\"}]"},
      {hermes,
       "<think>\nI look.\n</think>\n\nOne "
       "moment.\n<tool_call>{\"name\":\"find\",\"arguments\":{}}</"
       "tool_call>\n<tool_call>{\"name\":\"weather\",\"arguments\":{\"n\":1e16}}</tool_call>\n",
       "(I look.)One moment.[* find {}][* weather {\"n\":1e16}]"},
      {hermes,
       "<tool_call>[{\"name\": \"find\"}, {\"name\": \"weather\", \"arguments\": \"{\\\"a\\\": 1}\"}]</tool_call> and",
       "and[* find {}][* weather {\"a\": 1}]"},
      {hermes,
       "<tool_call>{\"name\": \"find\", \"arguments\": {\"text\": \"</tool_call> } \\\" <tool_call>\"}}</tool_call>",
       "[* find {\"text\": \"</tool_call> } \\\" <tool_call>\"}]"},
      {hermes, "<tool_call>{\"name\": \"find\", \"parameters\": {\"a\": [1, {}]}}", "[* find {\"a\": [1, {}]}]"},
      {hermes,
       "<tool_call>{\"id\": \"x1\", \"type\": \"function\", \"function\": {\"arguments\": null, \"name\": "
       "\"find\"}}</tool_call>",
       "[x1 find {}]"},
      {hermes, "<tool_call>{\"n\\u0061me\": \"f\\u0069nd\"}</tool_call>", "[* find {}]"},
      {mistral,
       "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"a\"}, \"id\": \"abc123def\"}, {\"name\": "
       "\"find\", \"arguments\": {}}]",
       "[abc123def weather {\"city\": \"a\"}][* find {}]"},
      {mistral, "Yes. [TOOL_CALLS]weather[ARGS]{\"city\": \"a\"}[TOOL_CALLS]find[CALL_ID]123456789[ARGS] {}",
       "Yes.[* weather {\"city\": \"a\"}][123456789 find {}]"},
      {phi, "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"a\"}}]<|/tool_call|>",
       "[* weather {\"city\": \"a\"}]"},
      {phi, "functools[{\"name\": \"find\", \"arguments\": {\"q\": \"]\"}}]", "[* find {\"q\": \"]\"}]"},
      {phi, "<|tool_call|>{\"type\": \"function\", \"function\": {\"name\": \"find\"}}", "[* find {}]"},
      {llama, "{\"name\": \"weather\", \"parameters\": {\"city\": \"a\"}}", "[* weather {\"city\": \"a\"}]"},
      {llama,
       "\n{\"type\": \"function\", \"name\": \"weather\", \"parameters\": {}}; {\"name\": \"find\", \"parameters\": "
       "{}}",
       "[* weather {}][* find {}]"},
      {llama, "<|python_tag|>{\"name\": \"find\", \"parameters\": {\"q\": 1}}", "[* find {\"q\": 1}]"},
      {llama, "<|python_tag|>find.call(query=\"it's\", exact=True)", "[* find {\"query\": \"it's\", \"exact\": true}]"},
      {llama, "<|python_tag|>[find(q='a\\n'), weather()]", "[* find {\"q\": \"a\\n\"}][* weather {}]"},
      {gemma, "```tool_code\nweather(city='Zürich', days=[0, -1.5], more={'a': None})\n```",
       "[* weather {\"city\": \"Zürich\", \"days\": [0, -1.5], \"more\": {\"a\": null}}]"},
      {gemma, "I call it:\n```tool_call\nfind(q=(1,))\nweather()\n```\nDone",
       "I call it:Done[* find {\"q\": [1]}][* weather {}]"},
      {gemma, "```json\n{\"name\": \"find\", \"parameters\": {\"q\": \"```\"}}\n```", "[* find {\"q\": \"```\"}]"},
      {gemma, "```json\n[{\"name\": \"find\", \"parameters\": {}}]\n```", "[* find {}]"},
      {gemma, "{\"name\": \"find\", \"parameters\": {}}", "[* find {}]"},
  };
  for (const Given& given : table) expect_read(given);
}

// The types of the values are those of the function's schema.
TEST(AnswerParser, SeparatesCallsInElements) {
  const std::vector<Given> table{
      {coder,
       "<think>\nhm\n</think>\n\nI look.\n<tool_call>\n<function=weather>\n<parameter=city>\nZürich\nCH\n</parameter>\n"
       "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
       "(hm)I look.[* weather {\"city\": \"Zürich\\nCH\", \"days\": 3}]"},
      {coder, "<tool_call><function=find></function></tool_call>\n<tool_call><function=find></function></tool_call>",
       "[* find {}][* find {}]"},
      {coder, "<function=find>\n<parameter=q>\n a <b> \n</parameter>\n</function>", "[* find {\"q\": \" a <b> \"}]"},
      {coder, "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"a\": 1}}\n</tool_call>", "[* find {\"a\": 1}]"},
      {coder, "<tool_call>\n<function=find>\n</function>", "[* find {}]"},
      {seed,
       "<seed:think>a</seed:think><seed:tool_call>\n<function=weather>\n<parameter=city>3</parameter>\n</function>\n"
       "</seed:tool_call>",
       "(a)[* weather {\"city\": \"3\"}]"},
      {minimax,
       "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"sure\">true</parameter>\n</invoke>\n<invoke "
       "name=\"find\">\n</invoke>\n</minimax:tool_call>",
       "[* weather {\"sure\": true}][* find {}]"},
      {glm, "<tool_call>weather\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
       "[* weather {\"days\": 3}]"},
      {glm,
       "<tool_call>weather<arg_key>city</arg_key><arg_value>a\"b</arg_value></tool_call><tool_call>find</tool_call>",
       "[* weather {\"city\": \"a\\\"b\"}][* find {}]"},
      {coder, "<tool_call><function=other></function></tool_call>",
       "<tool_call><function=other></function></tool_call>"},
      {coder, "<tool_call><function=find></tool_call>", "<tool_call><function=find></tool_call>"},
      {coder, "<tool_call><function=find><parameter=a>1</function></tool_call>",
       "<tool_call><function=find><parameter=a>1</function></tool_call>"},
      {coder, "a <function=", "a <function="},
      {glm, "<tool_call>other</tool_call> b", "<tool_call>other</tool_call> b"},
      {coder, "<tool_call>\n<function=find>", "<tool_call>\n<function=find>"},
  };
  for (const Given& given : table) expect_read(given);
}

TEST(AnswerParser, TypesValuesByTheSchema) {
  struct Row {
    const char* key;
    const char* value;
    const char* expected;
  };

  for (const Row& row : {
           Row{"city", "3", R"("3")"},
           Row{"city", "null", R"("null")"},
           Row{"city", "{\"a\": 1}", R"("{\"a\": 1}")"},
           Row{"days", "3", "3"},
           Row{"days", " 3 ", "3"},
           Row{"days", "-1e2", "-1e2"},
           Row{"days", "three", R"("three")"},
           Row{"days", "", R"("")"},
           Row{"days", "true", R"("true")"},
           Row{"sure", "false", "false"},
           Row{"sure", "True", "true"},
           Row{"sure", "yes", R"("yes")"},
           Row{"list", "[1, \"a\"]", "[1, \"a\"]"},
           Row{"list", "['a', True]", "[\"a\", true]"},
           Row{"list", "a, b", R"("a, b")"},
           Row{"more", "{\"b\": {}}", "{\"b\": {}}"},
           Row{"more", "null", "null"},
           Row{"more", "None", "null"},
           Row{"share", "0.5", "0.5"},
           Row{"share", "half", R"("half")"},
           Row{"unknown", "3", R"("3")"},
           Row{"unknown", "[3]", "[3]"},
       }) {
    expect_read({coder,
                 fmt::format("<tool_call><function=weather><parameter={}>{}</parameter></function></tool_call>",
                             row.key, row.value),
                 fmt::format("[* weather {{\"{}\": {}}}]", row.key, row.expected)});
  }
}

TEST(AnswerParser, SeparatesCallsBetweenSpecialMarkers) {
  const std::vector<Given> table{
      {kimi,
       "Yes.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": "
       "\"a\"}<|tool_call_end|><|tool_call_begin|>find:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       "Yes.[functions.weather:0 weather {\"city\": \"a\"}][find:1 find {}]"},
      {kimi,
       "<|tool_call_begin|>find:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
       "<|tool_call_begin|>find:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
       "[find:0 find {}][* find {}]"},
      {kimi, "<|tool_call_begin|>other:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
       "<|tool_call_begin|>other:0<|tool_call_argument_begin|>{}<|tool_call_end|>"},
      {deepseek_v3,
       "<think>a</think>b<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": "
       "\"a\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n{}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "(a)b[* weather {\"city\": \"a\"}][* find {}]"},
      {deepseek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{\"q\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "[* find {\"q\": 1}]"},
      {deepseek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{\"q\": 1}", "[* find {\"q\": 1}]"},
      {deepseek, "<｜tool▁call▁begin｜>find{}<｜tool▁call▁end｜>", "<｜tool▁call▁begin｜>find{}<｜tool▁call▁end｜>"},
      {command,
       "<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
       "\"weather\", \"parameters\": {\"city\": \"a\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"find\", "
       "\"parameters\": {}}\n]<|END_ACTION|>",
       "(I look.)[* weather {\"city\": \"a\"}][* find {}]"},
      {command, "<|START_RESPONSE|>Hello you<|END_RESPONSE|>", "Hello you"},
      {command, "<|START_RESPONSE|>Hello <|END", "Hello <|END"},
      {command, "<|START_RESPONSE|> a<|END_RESPONSE|>", "a", false, {}},
      {lfm, "<|tool_call_start|>[weather(city=\"a\", days=3), find()]<|tool_call_end|>I look.",
       "I look.[* weather {\"city\": \"a\", \"days\": 3}][* find {}]"},
      {lfm, "<|tool_call_start|>[{\"name\": \"find\", \"arguments\": {}}]<|tool_call_end|>", "[* find {}]"},
      {apriel, "Hm.\n<tool_calls>[{\"name\": \"find\", \"arguments\": {}, \"id\": \"x\"}]</tool_calls>",
       "Hm.[x find {}]"},
      {apriel, "Hm.\n[BEGIN FINAL RESPONSE]\nHello.\n[END FINAL RESPONSE]", "(Hm.)Hello.", true},
      {apriel,
       "Hm.\n[BEGIN FINAL RESPONSE]\n<tool_calls>[{\"name\": \"find\", \"arguments\": {}, \"id\": \"x\"}]</tool_calls>",
       "(Hm.)[x find {}]", true},
  };
  for (const Given& given : table) expect_read(given);
}

TEST(AnswerParser, SeparatesMessagesOfChannels) {
  const std::string call = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"a\"}",
                    analysis = "<|channel|>analysis<|message|>I look.";
  const std::vector<Given> table{
      {harmony, analysis + "<|end|><|start|>assistant<|channel|>final<|message|>Hello \n you<|return|>",
       "(I look.)Hello \n you"},
      {harmony, analysis + "<|end|><|start|>assistant" + call + "<|call|>", "(I look.)[* weather {\"city\": \"a\"}]"},
      {harmony, call, "[* weather {\"city\": \"a\"}]"},
      {harmony, " to=functions.find<|channel|>commentary json<|message|>{}<|call|>", "[* find {}]"},
      {harmony, "<|channel|>commentary<|message|>First.<|end|><|start|>assistant" + call + "<|call|>",
       "First.[* weather {\"city\": \"a\"}]"},
      {harmony,
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|><|start|>"
       "assistant"
       "<|channel|>final<|message|>c",
       "(a\nb)c"},
      {harmony, "<|channel|>analysis<|message|>a<|channel|>final<|message|>c", "(a)c"},
      {harmony, "<|channel|>final<|message|>a", "a", false, {}},
      {harmony, "<|channel|>commentary to=functions.other <|message|>{}<|call|>", "{}"},
      {harmony, "<|channel|>commentary to=functions.find <|message|>{\"a\": <|call|>", "{\"a\": "},
      {harmony, "<|channel|>commentary to=functions.find<|message|>x", "x"},
      {harmony, "Hello <you>", "Hello <you>"},
      {harmony, "to be", "to be"},
      {harmony, "", ""},
      {harmony, " ", " "},
      {harmony, "<|channel|>anal", ""},
      {harmony, "<|chan", "<|chan"},
      {harmony, "<|cha<|message|>a", "<|cha<|message|>a"},
      {harmony, "<|channel|>final<|message|>a<|end|><|start|>assist", "a"},
      {harmony, "<|channel|>final<|message|>a<|end|> b", "a\n b"},
      {harmony, "<|channel|>final<|message|>a<|retu", "a<|retu"},
      {harmony, "<|channel|>" + std::string(245, 'x') + "<|message|>a", "a"},
      {harmony, "<|channel|>" + std::string(246, 'x') + "<|message|>a",
       "<|channel|>" + std::string(246, 'x') + "<|message|>a"},
  };
  for (const Given& given : table) expect_read(given);
}

// What a constraint lets through instead of calls is one text, whatever is in its strings.
TEST(AnswerParser, ReadsNoCallsInATextOfAForm) {
  const std::string quoted = R"({"a": "<tool_call>{\"name\": \"find\"}</tool_call>", "b": "<|tool_call_begin|>"})";
  const std::vector<Given> table{
      {hermes, quoted, quoted},
      {hermes, "<think>a</think>\n" + quoted, "(a)" + quoted},
      {hermes, "<tool_call>{\"name\": \"find\"}</tool_call>", "[* find {}]"},
      {llama, R"({"name": "Ada", "parameters": {}})", R"({"name": "Ada", "parameters": {}})"},
      {llama, R"({"name": "find", "parameters": {}})", "[* find {}]"},
      {kimi, R"({"a": "<|tool_calls_section_begin|>"})", R"({"a": "<|tool_calls_section_begin|>"})"},
      {command, "<|START_RESPONSE|>{\"a\": \"<|START_ACTION|>\"}<|END_RESPONSE|>", "{\"a\": \"<|START_ACTION|>\"}"},
  };
  for (Given given : table) {
    given.may_have_form = true;
    expect_read(given);
  }
}

// A form that has begun is given as it comes, also where a call would be JSON without a marker.
TEST(AnswerParser, GivesAFormAsItComes) {
  AnswerParser parser(
      {.format = llama, .functions = {"find"}, .id_seed = 7, .is_enforced = true, .may_have_form = true});
  EXPECT_EQ(joined(parser.add("{\"na"), 7), "");
  EXPECT_EQ(joined(parser.add("me\": \"Ada\""), 7), "{\"name\": \"Ada\"");
  EXPECT_EQ(joined(parser.add(", \"x\": 1"), 7), ", \"x\": 1");
  EXPECT_EQ(joined(parser.finish(), 7), "");
  AnswerParser cut({.format = llama, .functions = {"find"}, .id_seed = 7, .is_enforced = true, .may_have_form = true});
  EXPECT_EQ(joined(cut.add("{\"name\": \"find\", \"par"), 7) + joined(cut.finish(), 7), "");
}

// What only looks like a call is content, with its markers.
TEST(AnswerParser, KeepsWhatIsNoCall) {
  const std::vector<Given> table{
      {hermes, "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
       "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>"},
      {hermes, "<tool_call>{'name': 'find'}</tool_call>", "<tool_call>{'name': 'find'}</tool_call>"},
      {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": [1]}",
       "<tool_call>{\"name\": \"find\", \"arguments\": [1]}"},
      {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": \"x\"}",
       "<tool_call>{\"name\": \"find\", \"arguments\": \"x\"}"},
      {hermes, "<tool_call>{\"name\": 1}", "<tool_call>{\"name\": 1}"},
      {hermes, "<tool_call>[]</tool_call>", "<tool_call>[]</tool_call>"},
      {hermes, "<tool_call>find()</tool_call>", "<tool_call>find()</tool_call>"},
      {hermes, "The tag <tool_call> is", "The tag <tool_call> is"},
      {hermes, "x <tool_call>  ", "x <tool_call>  "},
      {hermes, "x <tool_", "x <tool_"},
      {hermes, "x \n", "x \n"},
      {hermes, "\n x", "\n x"},
      {hermes, "<tool_call>{\"name\": \"find\" \"a\": 1}", "<tool_call>{\"name\": \"find\" \"a\": 1}"},
      // A call behind one that is none.
      {hermes, "<tool_call>{\"name\": \"find\", <tool_call>{\"name\": \"find\"}</tool_call>",
       "<tool_call>{\"name\": \"find\",[* find {}]"},
      {hermes, "<tool_call>{\"name\": \"other\"}</tool_call>\n<tool_call>{\"name\": \"find\"}</tool_call>",
       "<tool_call>{\"name\": \"other\"}</tool_call>[* find {}]"},
      // A call within the arguments of one that is none is no call either.
      {hermes, "<tool_call>{\"name\": \"other\", \"arguments\": {\"q\": \"<tool_call>{}\"}}",
       "<tool_call>{\"name\": \"other\", \"arguments\": {\"q\": \"<tool_call>{}\"}}"},
      {mistral, "[TOOL_CALLS] none", "[TOOL_CALLS] none"},
      {mistral, "[TOOL_CALLS]other[ARGS]{}", "[TOOL_CALLS]other[ARGS]{}"},
      {mistral, "[TOOL_CALLS]find[ARGS]x", "[TOOL_CALLS]find[ARGS]x"},
      {mistral, "[TOOL_CALLS]find[ARGS] ", "[TOOL_CALLS]find[ARGS] "},
      {mistral, "[TOOL_CALLS]" + std::string(400, 'x') + "[ARGS]{}",
       "[TOOL_CALLS]" + std::string(400, 'x') + "[ARGS]{}"},
      {phi, "functools.partial(f)", "functools.partial(f)"},
      {llama, "{\"answer\": 42} is it", "{\"answer\": 42} is it"},
      {llama, "{", "{"},
      {llama, "It is {\"name\": \"find\", \"parameters\": {}}", "It is {\"name\": \"find\", \"parameters\": {}}"},
      {llama, "<|python_tag|>print(1)", "<|python_tag|>print(1)"},
      {llama, "<|python_tag|>find(1)", "<|python_tag|>find(1)"},
      {llama, "{\"name\": \"find\"}; that is all", "; that is all[* find {}]"},
      {gemma, "```python\nfind()\n```", "```python\nfind()\n```"},
      {gemma, "```json\n{\"a\": 1}\n```", "```json\n{\"a\": 1}\n```"},
      {gemma, "```tool_code\nfind(", "```tool_code\nfind("},
      {gemma, "```tool_code\nfind(q=x)\n```", "```tool_code\nfind(q=x)\n```"},
      // Without functions there are no calls.
      {hermes, "<tool_call>{\"name\": \"find\"}</tool_call>", "<tool_call>{\"name\": \"find\"}</tool_call>", false, {}},
      {thinking, "<tool_call>{\"name\": \"find\"}</tool_call>", "<tool_call>{\"name\": \"find\"}</tool_call>"},
      // Nor in the reasoning.
      {hermes, "<think><tool_call>{\"name\": \"find\"}</tool_call></think>a",
       "(<tool_call>{\"name\": \"find\"}</tool_call>)a"},
  };
  for (const Given& given : table) expect_read(given);
}

// A constraint allows numbers of any size.
TEST(AnswerParser, TakesNumbersBeyondFloat64) {
  for (const Given& given : std::vector<Given>{
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {\"n\": 17.9E999}}</tool_call>",
            "[* find {\"n\": 17.9E999}]"},
           {llama, "{\"name\": \"find\", \"parameters\": {\"n\": [-1e-9999, 1e400]}}",
            "[* find {\"n\": [-1e-9999, 1e400]}]"},
           {mistral, "[TOOL_CALLS]find[ARGS]{\"n\": 1e400}", "[* find {\"n\": 1e400}]"},
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": \"{\\\"n\\\": 1e400}\"}",
            "[* find {\"n\": 1e400}]"},
           {gemma, "```tool_code\nfind(n=1e400)\n```", "[* find {\"n\": 1e400}]"},
       }) {
    expect_read(given);
  }
}

// Once the object of its arguments has begun, it is a call.
TEST(AnswerParser, GivesArgumentsAsTheyCome) {
  for (const Given& given : std::vector<Given>{
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {\"a\": ", "[* find {\"a\": ]"},
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {\"a\": 12", "[* find {\"a\": 12]"},
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {\"a\": \"\\u00", "[* find {\"a\": \"\\u00]"},
           {hermes, "a <tool_call>\n{\"name\": \"find\", \"arguments\": {}</tool_call> b", "ab[* find {}]"},
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {}, \"x\": [1]}</tool_call>", "[* find {}]"},
           {hermes, "<tool_call>{\"id\": \"7\", \"name\": \"find\", \"arguments\": {\"a\": \"}\\\"{\"}}</tool_call>",
            "[7 find {\"a\": \"}\\\"{\"}]"},
           // What is no JSON any more is content.
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {\"a\": tru, \"b\": 1}}",
            "tru, \"b\": 1}}[* find {\"a\": ]"},
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {\"a\": \"\\ud800x\"}}",
            "\\ud800x\"}}[* find {\"a\": \"]"},
           {hermes, "<tool_call>{\"name\": \"find\", \"arguments\": {'a': 'x'}}</tool_call>",
            "<tool_call>{\"name\": \"find\", \"arguments\": {'a': 'x'}}</tool_call>"},
           {llama, "{\"name\": \"find\", \"parameters\": {...}} is how one calls it",
            "{\"name\": \"find\", \"parameters\": {...}} is how one calls it"},
           {mistral, "[TOOL_CALLS]find[CALL_ID]1[ARGS]{\"a\": [1, ", "[1 find {\"a\": [1, ]"},
           {llama, "{\"name\": \"find\", \"parameters\": {\"a\": {", "[* find {\"a\": {]"},
       }) {
    expect_read(given);
  }
  AnswerParser parser({hermes, {"find"}, false, 1});
  EXPECT_TRUE(parser.add("<tool_call>{\"name\": \"find\", \"arguments\": {").empty());
  EXPECT_EQ(parser.add("\"q\": \"a text").back().text, "{\"q\": \"a text");
  EXPECT_EQ(parser.add(" and 1\"").front().text, " and 1\"");
  EXPECT_EQ(parser.add(", \"n\": 1").front().text, ", \"n\": ");
  EXPECT_EQ(parser.add("2}").front().text, "12}");
  EXPECT_TRUE(parser.add("}</tool_call>").empty());
}

// Calls as far as they have come, and no content.
TEST(AnswerParser, LeavesOutWhereAnEnforcedAnswerIsCut) {
  struct Row {
    AnswerFormat format;
    std::string text, expected;
  };

  const std::string call = "<tool_call>\n{\"name\": \"find\", \"arguments\": {}}\n</tool_call>";
  for (const Row& row : std::vector<Row>{
           {hermes, call + "\n<tool_call>\n{\"name\": \"find\", \"arg", "[* find {}]"},
           {hermes, call + "\n<tool_c", "[* find {}]"},
           {hermes, call, "[* find {}]"},
           {hermes, "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\": \"a", "[* find {\"q\": \"a]"},
           {hermes, "<tool_call>\n{\"name\": \"find\", \"argum", ""},
           {hermes, "<tool_", ""},
           {hermes, "<think>a</think>\n<tool_call>\n{", "(a)"},
           {hermes, "<think>a</th", "(a</th)"},
           {llama, "{\"name\": \"find\", \"parameters\": {}}; {\"na", "[* find {}]"},
           {llama, "{\"name\": ", ""},
       }) {
    for (std::size_t at = 0; at <= row.text.size(); ++at) {
      AnswerParser parser({.format = row.format, .functions = {"find"}, .id_seed = 7, .is_enforced = true});
      std::vector<AnswerDelta> all = parser.add(row.text.substr(0, at));
      for (const auto& more : {parser.add(row.text.substr(at)), parser.finish()}) {
        all.insert(all.end(), more.begin(), more.end());
      }
      EXPECT_EQ(joined(all, 7), row.expected) << row.text << " split at " << at;
    }
  }
}

TEST(IsJson, AcceptsNumbersBeyondFloat64) {
  for (const std::string text :
       {"0", "-1.5e+3", "1e400", "12345678901234567890123", "\"\"", "\"a\\\"\\u00e9\"", "true", "null", "[]", "{}",
        " [1, [], {}] ", R"({"a": {"b": [1, {"c": null}]}, "d": "}"})", "[[[[1]]]]"}) {
    EXPECT_TRUE(is_json(text)) << text;
  }
  for (const std::string text : {"",          " ",        "01",          "1.",           ".5",
                                 "1e",        "+1",       "nul",         "truex",        "[",
                                 "]",         "[1,]",     "[,1]",        "[1 2]",        "{",
                                 "{a: 1}",    R"({"a"})", R"({"a": })",  R"({"a": 1,})", R"({"a": 1 "b": 2})",
                                 R"({1: 2})", "1 2",      "[1}",         R"({"a": 1])",  "\"",
                                 "\"\\x\"",   "\"\n\"",   "\"\\ud800\"", "\"\xff\"",     "[1]]"}) {
    EXPECT_FALSE(is_json(text)) << text;
  }
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_TRUE(is_json(deep));
}

TEST(AnswerParser, GivesWhatIsCertainAtOnce) {
  AnswerParser parser({hermes, {"find"}, false, 1});
  const auto text = [&](std::string_view piece) { return joined(parser.add(piece), 1); };
  EXPECT_EQ(text("<think>I "), "(I)");
  EXPECT_EQ(text("think"), "( think)");
  EXPECT_EQ(text("</th"), "");
  EXPECT_EQ(text("ink> Hello"), "Hello");
  EXPECT_EQ(text(" you "), " you");
  EXPECT_EQ(text("<t"), "");
  EXPECT_EQ(text("r>"), " <tr>");
  EXPECT_EQ(text("<tool_call>{\"name\": \"find\""), "");
  EXPECT_EQ(text("}"), "[* find {}]");
  EXPECT_EQ(text("</tool_call>"), "");
}

// Each character is looked at a few times, not once for each piece behind it.
TEST(AnswerParser, TakesLongCallsInManyPieces) {
  AnswerParser parser({hermes, {"find"}, false, 1});
  (void)parser.add("<tool_call>{\"name\": \"find\", \"arguments\": {\"q\": \"");
  std::size_t bytes = 0;
  for (int i = 0; i < 200'000; ++i) bytes += parser.add("word ").front().text.size();
  EXPECT_EQ(bytes, 1'000'000U);
  EXPECT_EQ(parser.add("\"}}").front().text, "\"}");

  AnswerParser behind({hermes, {"find"}, false, 1});
  std::size_t deltas = behind.add("<tool_call>{\"arguments\": {\"q\": \"").size();
  for (int i = 0; i < 200'000; ++i) deltas += behind.add("word ").size();
  EXPECT_EQ(deltas, 0U);
  const std::vector<AnswerDelta> last = behind.add("\"}, \"name\": \"find\"}");
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[1].text.size(), 1'000'000U + 9);
}

TEST(ToolCallId, HasNineLettersAndDigits) {
  EXPECT_THAT(tool_call_id(0, 0), testing::MatchesRegex("[0-9A-Za-z]+"));
  EXPECT_EQ(tool_call_id(0, 0).size(), 9U);
  EXPECT_EQ(tool_call_id(1, 2), tool_call_id(1, 2));
  EXPECT_NE(tool_call_id(1, 2), tool_call_id(1, 3));
  EXPECT_NE(tool_call_id(1, 2), tool_call_id(2, 2));
}

TEST(AnswerFormat, IsThatOfTheTemplate) {
  const std::vector<std::pair<std::string, AnswerFormat>> table{
      {"{{ messages }}", {}},
      {"{{ '<think>' }} <tool_call>", hermes},
      {"content.split('</think>')", thinking},
      {"[TOOL_CALLS] <tool_call>", {"", "", ToolCallStyle::mistral}},
      {"[THINK] [TOOL_CALLS]", mistral},
      {"<|tool_call|>", phi},
      {"<|python_tag|>", llama},
      {"<|start_header_id|>ipython<|end_header_id|>", llama},
      {"<start_of_turn>", gemma},
      {"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>", ToolCallStyle::none}},
      {"<tool_call>\n<function=name>{}", {}},
      {"<tool_call>name<tool_sep>", {}},
      {"<think> <tool_call><invoke name=\"a\">", thinking},
      {"[TOOL_CALLS]a[ARGS]", {"", "", ToolCallStyle::mistral_named}},
      {"<think> <tool_call>\n<function=a>\n<parameter=b>", coder},
      {"<seed:think> <seed:tool_call>\n<function=a>\n<parameter=b>", seed},
      {"<think> minimax:tool_call <invoke name=\"a\">", minimax},
      {"<think> <tool_call>{function-name}<arg_key>{arg-key}</arg_key>", glm},
      {"<|tool_call_begin|>a<|tool_call_argument_begin|>", kimi},
      {"<think> <｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n```json", deepseek_v3},
      {"<think> <｜tool▁call▁begin｜>a<｜tool▁sep｜>", deepseek},
      {"<|START_THINKING|> <|START_ACTION|> <|START_RESPONSE|>", command},
      {"<|tool_list_start|> <|tool_call_start|>", lfm},
      {"<tool_call></tool_call> <tool_calls>[ Here are my reasoning steps:\n", apriel},
      {"<|channel|>analysis<|message|>", harmony},
  };
  for (const auto& [text, format] : table) EXPECT_EQ(answer_format_of(text), format) << text;
}

TEST(AnswerFormat, NamesItsMarkers) {
  EXPECT_THAT(markers_of(hermes), ElementsAre("<think>", "</think>", "<tool_call>", "</tool_call>"));
  EXPECT_THAT(markers_of(llama), ElementsAre("<|python_tag|>"));
  EXPECT_THAT(markers_of({}), ElementsAre());
}

TEST(AnswerFormat, KnowsWhetherThePromptOpensReasoning) {
  EXPECT_TRUE(opens_reasoning(hermes, "a<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(opens_reasoning(hermes, "a<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_reasoning(hermes, "a<|im_start|>assistant\n"));
  EXPECT_FALSE(opens_reasoning(hermes, ""));
  EXPECT_FALSE(opens_reasoning(llama, "<think>"));
}

TEST(ToolCallText, RefusesWhatIsDeep) {
  const std::vector<std::string> functions{"find"};
  const auto nested = [](int depth) {
    return R"({"name": "find", "arguments": {"a": )" + std::string(depth, '[') + std::string(depth, ']') + "}}";
  };
  EXPECT_TRUE(read_json_calls(nested(60), functions));
  EXPECT_TRUE(read_json_calls(nested(1000), functions));
  EXPECT_FALSE(read_json_calls(nested(2000), functions));
  EXPECT_FALSE(read_python_calls("find(a=" + std::string(100000, '[') + ")", functions));
}

}  // namespace
}  // namespace gpux::generation
