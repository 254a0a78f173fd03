#include "text/chat_template.h"

#include <cstdlib>
#include <ctime>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux::text {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::chrono::seconds reference_time{1753538700};  // as in scripts/references/chat-references

std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests/text/chat" / name;
}

std::vector<json> rows_of(const std::string& file) {
  std::vector<json> rows;
  std::istringstream lines(read_file(data(file)));
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

std::string render(const ChatTemplate& chat_template, const std::string& values) {
  return chat_template.render(values, std::chrono::system_clock::time_point(reference_time));
}

// The outcome as a text: the rendered one, or the error.
std::string outcome(const std::string& source, const std::string& values = "{}") {
  try {
    return render(ChatTemplate::compile(source), values);
  } catch (const Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.message());
  }
}

class InUtc {
 public:
  InUtc() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

// Each template with each conversation, as transformers' apply_chat_template() renders it.
TEST(ChatTemplate, EqualsTransformers) {
  const InUtc in_utc;
  std::map<std::string, std::string> values;
  for (const json& row : rows_of("conversations.jsonl")) values[row["name"]] = row["values"];
  std::map<std::string, ChatTemplate> templates;
  std::size_t texts = 0, refusals = 0;
  for (const json& row : rows_of("references.jsonl")) {
    const std::string name = row["template"], conversation = row["conversation"];
    SCOPED_TRACE(name + " with " + conversation);
    if (!templates.contains(name)) {
      templates.emplace(name, ChatTemplate::compile(read_file(data("templates/" + name + ".jinja"))));
    }
    const std::string given = fmt::format(R"({{"bos_token": {}, "eos_token": {}, {})", row["bos_token"].dump(),
                                          row["eos_token"].dump(), values.at(conversation).substr(1));
    try {
      const std::string text = render(templates.at(name), given);
      ASSERT_TRUE(row.contains("text")) << "transformers refuses it: " << row << "\ngpux: " << text;
      EXPECT_EQ(text, row["text"].get<std::string>());
      ++texts;
    } catch (const Error& error) {
      ASSERT_FALSE(row.contains("text")) << error.message();
      EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
      if (row.contains("message")) {
        EXPECT_EQ(error.message(), "the chat template refuses the messages: " + row["message"].get<std::string>());
      }
      ++refusals;
    }
  }
  EXPECT_GT(texts, 480U);
  EXPECT_GT(refusals, 30U);
}

TEST(ChatTemplate, RefusesWhatIsNoTemplate) {
  for (const std::string source :
       {"{% if %}", "{{ a", "{% for x in y %}", "{{ a | no_such_filter }}", "{{ a is no_such_test }}",
        "{% include 'x' %}", "{% extends 'x' %}", "{% block x %}{% endblock %}", "{% import 'x' as y %}",
        "{% autoescape true %}{% endautoescape %}", "{{ '\\x4' }}", "{% endif %}", "\xff"}) {
    EXPECT_THAT(outcome(source), HasSubstr("invalid_model: the chat template cannot be used: ")) << source;
  }
  EXPECT_EQ(outcome("a\n{% if %}"), "invalid_model: the chat template cannot be used: line 2: unexpected end of block");
  EXPECT_EQ(outcome("{{ no_function() }}"),
            "invalid_model: the chat template cannot be used: line 1: no_function is unknown");
}

// As Jinja: a template may have a branch for another library.
TEST(ChatTemplate, UnknownFiltersBehindAConditionFailWhereTheyAreUsed) {
  const std::string text = R"({"a": "b"})", mapping = R"({"a": {}})";
  for (const std::string source :
       {"{% if a is mapping %}{{ a | from_json }}{% endif %}b", "{{ a | from_json if a is mapping else a }}",
        "{% if a is mapping and a is no_such_test %}{% endif %}b",
        "{% if a is string %}b{% elif a is no_such_test %}{% endif %}",
        "{% if a is mapping %}{% for x in [1] %}{{ x | first | from_json }}{% endfor %}{% endif %}b",
        "{% if a is mapping %}{% filter from_json %}b{% endfilter %}{% endif %}b",
        "{% if a is mapping %}{% set x %}{{ a | from_json }}{% endset %}{% endif %}b"}) {
    EXPECT_EQ(outcome(source, text), "b") << source;
    EXPECT_THAT(outcome(source, mapping),
                testing::StartsWith("invalid_model: the chat template cannot be used: line 1: no "))
        << source;
  }
  EXPECT_EQ(outcome("{% if a is mapping %}{{ a | from_json }}{% endif %}", mapping),
            "invalid_model: the chat template cannot be used: line 1: no filter named \"from_json\"");
}

TEST(ChatTemplate, RefusesValuesThatDoNotFit) {
  EXPECT_EQ(outcome("{{ raise_exception('no ' ~ who) }}", R"({"who": "dogs"})"),
            "invalid_input: the chat template refuses the messages: no dogs");
  for (const std::string source :
       {"{{ a.b.c }}", "{{ 'x' + a }}", "{{ 'x' + 1 }}", "{% for x in none %}{% endfor %}", "{{ a | tojson }}",
        "{{ [].append(1) }}", "{{ {}.update({}) }}", "{{ 1 < 'a' }}", "{{ ','.join([1]) }}", "{{ 1 // 0 }}"}) {
    EXPECT_THAT(outcome(source), HasSubstr("invalid_input: the messages do not fit the chat template: line 1: "))
        << source;
  }
  for (const std::string values :
       {"", "[]", "{", "{}{}", R"({"a": 01})", R"({"a": "\ud800"})", R"({"a": nul})", "{'a': 1}", R"({"a": NaN})",
        R"({"a": 999999999999999999999999999999999999999999})", "{\"a\": \"\n\"}"}) {
    EXPECT_THAT(outcome("", values), HasSubstr("invalid_input: the messages do not fit the chat template: ")) << values;
  }
  EXPECT_THAT(outcome("", "{\"a\": \"\xff\"}"), HasSubstr("not UTF-8 at byte offset 7"));
}

TEST(ChatTemplate, KeepsNumbersAndTheOrderOfKeys) {
  EXPECT_EQ(outcome("{{ v | tojson }} {{ v }}",
                    R"({"v": {"b": 1, "a": 1.0, "c": 1e16, "b": 12345678901234567890123, "d": 5e-324}})"),
            R"({"b": 12345678901234567890123, "a": 1.0, "c": 1e+16, "d": 5e-324} )"
            "{'b': 12345678901234567890123, 'a': 1.0, 'c': 1e+16, 'd': 5e-324}");
}

// Each of these would run for minutes, or take gigabytes.
TEST(ChatTemplate, HasLimits) {
  const std::string values = R"({"long": ")" + std::string(10000, 'x') + R"("})";
  for (const std::string source :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ long }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = ns.x.replace('x', long) %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for a in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | "
        "tojson }}",
        "{% set ns = namespace(x=1) %}{% for a in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=1) %}{% for a in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == "
        "ns.x[0] }}",
        "{{ 'x' * 99999999 }}{{ 'x' * 99999999 }}{{ 'x' * 99999999 }}{{ 'x' * 99999999 }}",
        "{{ 'x'.center(9999999999) }}", "{{ 'x' | center(9999999999) }}", "{{ 'x'.zfill(9999999999) }}",
        "{{ 'x' | indent(9999999999, true) }}", "{{ '\t'.expandtabs(9999999999) }}",
        "{{ [1] | tojson(indent=9999999999) }}", "{{ '%9999999999s' % 'x' }}", "{{ '{:9999999999}'.format('x') }}",
        "{{ range(999999999) | list }}"}) {
    EXPECT_THAT(outcome(source, values),
                testing::AnyOf(HasSubstr("invalid_model: the chat template does not end: it takes more than 4080"),
                               HasSubstr("invalid_input: ")))
        << source;
  }
  EXPECT_THAT(outcome(std::string((1 << 20) + 1, 'x')), HasSubstr("it has 1048577 bytes; accepted: up to 1048576"));
  const ChatTemplate chat_template = ChatTemplate::compile("{{ long }}");
  EXPECT_EQ(chat_template.render(values, {}, 10000).size(), 10000U);
  try {
    (void)chat_template.render(values, {}, 9999);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_EQ(error.message(), "the prompt has 10000 bytes; accepted: up to 9999");
  }
}

std::string repeated(std::string_view begin, std::string_view middle, std::string_view end) {
  std::string source(begin);
  for (int i = 0; i < 40000; ++i) source += middle;
  return source.append(end);
}

// The parser recurses, and values are freed by recursion: each of these would overflow the stack.
TEST(ChatTemplate, BoundsNesting) {
  for (const std::string& source :
       {repeated("{{ ", "(", ""), repeated("{{ ", "[", ""), repeated("{{ ", "-", "1 }}"),
        repeated("{{ ", "not ", "1 }}"), repeated("{{ a", ".b", " }}"), repeated("{{ a", "[0]", " }}"),
        repeated("{{ a", "()", " }}"), repeated("{{ 1", "+1", " }}"), repeated("{{ 1", "~1", " }}"),
        repeated("{{ 1", " and 1", " }}"), repeated("{{ 1", " if 1 else 1", " }}"), repeated("{{ a", "|trim", " }}"),
        repeated("{{ 1", " is defined", " }}"), repeated("{{ 1", " < 1", " }}"), repeated("", "{% if a %}", ""),
        repeated("{% if 1 %}", "{% elif 1 %}", "{% endif %}"), repeated("{{ ", "{1:", "")}) {
    EXPECT_THAT(outcome(source), HasSubstr("invalid_model: the chat template cannot be used: "))
        << source.substr(0, 40);
  }
  // Freed by recursion, in vain if they were that deep.
  for (const std::string& source : {repeated("{% set a = [1] %}", "{% set a = [a] %}", ""),
                                    repeated("{% set a = {} %}", "{% set a = {1: a} %}", ""),
                                    repeated("{% set a = [1] %}", "{% set a = a | batch(1) %}", "")}) {
    EXPECT_THAT(outcome(source), HasSubstr("a value is nested deeper than 200 levels"));
  }
  for (const std::string source :
       {"{% set ns = namespace() %}{% set ns.x = ns %}", "{% set ns = namespace() %}{% set ns.x = [{'a': ns}] %}",
        "{% set ns = namespace() %}{% set other = namespace(x=ns) %}"}) {
    EXPECT_THAT(outcome(source), HasSubstr("a namespace cannot hold namespaces"));
  }
  EXPECT_THAT(outcome("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"), HasSubstr("recursion limit exceeded"));
  EXPECT_THAT(outcome("", R"({"a": )" + std::string(100, '[') + std::string(100, ']') + "}"),
              HasSubstr("nested deeper than 64 levels"));
}

// Work that grows with the messages is not what the limits are for.
TEST(ChatTemplate, RendersLongConversations) {
  const ChatTemplate chat_template = ChatTemplate::compile(read_file(data("templates/qwen3.jinja")));
  std::string values = R"({"add_generation_prompt": true, "messages": [)";
  std::string expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string role = i % 2 == 0 ? "user" : "assistant", content = std::string(500, 'a' + i % 26);
    values += fmt::format(R"({}{{"role": "{}", "content": "{}"}})", i == 0 ? "" : ", ", role, content);
    const bool thinks = i == 1999;
    expected += fmt::format("<|im_start|>{}\n{}{}<|im_end|>\n", role, thinks ? "<think>\n\n</think>\n\n" : "", content);
  }
  EXPECT_EQ(render(chat_template, values + "]}"), expected + "<|im_start|>assistant\n");
}

TEST(ChatTemplate, IsUsedByManyThreads) {
  const ChatTemplate chat_template = ChatTemplate::compile("{% for x in v %}{{ loop.index }}{{ x }}{% endfor %}");
  std::vector<std::string> texts(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      threads.emplace_back([&, i, copy = chat_template] {
        for (int round = 0; round < 50; ++round) texts[i] = render(copy, fmt::format(R"({{"v": [{}, "b"]}})", i));
      });
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], fmt::format("1{}2b", i));
}

TEST(ChatTemplate, WritesTheLocalTime) {
  const InUtc in_utc;
  EXPECT_EQ(outcome("{{ strftime_now('%d %b %Y, %H:%M:%S.%f %z%Z %%') }}"), "26 Jul 2025, 14:05:00.000000  %");
  EXPECT_EQ(outcome("{{ strftime_now('') }}|"), "|");
}

}  // namespace
}  // namespace gpux::text
