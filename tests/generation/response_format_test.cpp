#include "generation/response_format.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/refusal.h"

namespace gpux {

void PrintTo(const OutputConstraint& constraint, std::ostream* out) {
  *out << static_cast<int>(constraint.kind) << " " << constraint.text;
}

namespace generation {
namespace {

using Kind = OutputConstraint::Kind;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;

struct Row {
  std::string json;
  OutputConstraint constraint;
};

struct Refusal {
  std::string json;
  std::vector<std::string> words;
};

TEST(ResponseFormat, BecomesAnOutputConstraint) {
  for (const Row& row : std::vector<Row>{
           {"null", {}},
           {R"({"type": "text"})", {}},
           {R"({"type": "json_object"})", {Kind::json_object, ""}},
           {R"({"type": "json_schema", "json_schema": {"name": "x", "description": null, "strict": false,
                "schema": {"type": "object", "properties": {"b": {}, "a": {"minimum": 1.0}}}}})",
            {Kind::json_schema, R"({"type":"object","properties":{"b":{},"a":{"minimum":1.0}}})"}},
           {R"({"type": "json_schema", "json_schema": {"schema": true}})", {Kind::json_schema, "true"}},
       }) {
    EXPECT_EQ(read_response_format(row.json), row.constraint) << row.json;
  }
}

TEST(ResponseFormat, NamesTheMemberThatIsWrong) {
  for (const Refusal& row : std::vector<Refusal>{
           {"{", {"response_format is no JSON", "byte 2"}},
           {"[]", {"response_format is []", "an object"}},
           {"\"json_object\"", {"response_format is \"json_object\""}},
           {"{}", {"response_format has no type", "text, json_object, json_schema"}},
           {R"({"type": "xml"})", {"response_format.type is \"xml\"", "text, json_object, json_schema"}},
           {R"({"type": "json_object", "schema": {}})", {"response_format has the member \"schema\""}},
           {R"({"type": "json_object", "json_schema": {}})", {"has json_schema"}},
           {R"({"type": "json_schema"})", {"response_format has no json_schema"}},
           {R"({"type": "json_schema", "json_schema": []})", {"response_format.json_schema is []"}},
           {R"({"type": "json_schema", "json_schema": {"name": "x"}})", {"response_format.json_schema has no schema"}},
           {R"({"type": "json_schema", "json_schema": {"schema": 3}})", {"response_format.json_schema.schema is 3"}},
           {R"({"type": "json_schema", "json_schema": {"schema": {}, "name": 1}})", {"json_schema.name is 1"}},
           {R"({"type": "json_schema", "json_schema": {"schema": {}, "strict": "no"}})",
            {"response_format.json_schema.strict is \"no\"", "true or false"}},
           {R"({"type": "json_schema", "json_schema": {"schema": {}, "Schema": {}}})", {"the member \"Schema\""}},
           {"{\"type\": " + std::string(300, '[') + std::string(300, ']') + "}", {"more than 200 levels"}},
       }) {
    const std::string message = refusal([&] { (void)read_response_format(row.json); });
    for (const std::string& word : row.words) EXPECT_THAT(message, HasSubstr(word)) << row.json;
  }
}

TEST(OpenAiConstraint, IsOneMember) {
  for (const Row& row : std::vector<Row>{
           {R"({"prompt": "x"})", {}},
           {R"({"response_format": null, "guided_json": null})", {}},
           {R"({"messages": [{"guided_regex": "x"}], "response_format": {"type": "text"}, "guided_regex": "a+"})",
            {Kind::regex, "a+"}},
           {R"({"response_format": {"type": "json_object"}})", {Kind::json_object, ""}},
           {R"({"guided_json": {"b": 1, "a": 2}})", {Kind::json_schema, R"({"b":1,"a":2})"}},
           {R"({"guided_json": "{\"b\": 1, \"a\": 2}"})", {Kind::json_schema, R"({"b":1,"a":2})"}},
           {R"({"guided_choice": ["yes", "no (a) b", "é|*"]})", {Kind::regex, R"(yes|no \(a\) b|é\|\*)"}},
           {R"({"guided_grammar": "start: \"a\""})", {Kind::grammar, "start: \"a\""}},
           {R"({"structured_outputs": {"json": {"b": 1, "a": 2}}})", {Kind::json_schema, R"({"b":1,"a":2})"}},
           {R"({"structured_outputs": {"regex": "a+", "json": null, "backend": "x"}})", {Kind::regex, "a+"}},
           {R"({"structured_outputs": {"choice": ["a", "b"]}})", {Kind::regex, "a|b"}},
           {R"({"structured_outputs": {"grammar": "start: \"a\""}})", {Kind::grammar, "start: \"a\""}},
           {R"({"structured_outputs": {"json_object": true}})", {Kind::json_object, ""}},
           {R"({"structured_outputs": {"json_object": false}})", {}},
       }) {
    EXPECT_EQ(read_openai_constraint(row.json), row.constraint) << row.json;
  }
  for (const Refusal& row : std::vector<Refusal>{
           {"[]", {"the request is []", "an object"}},
           {R"({"guided_json": {}, "guided_regex": "a"})", {"guided_json and guided_regex are both there"}},
           {R"({"response_format": {"type": "json_object"}, "guided_choice": ["a"]})",
            {"response_format and guided_choice are both there"}},
           {R"({"guided_json": "{"})", {"guided_json is no JSON"}},
           {R"({"guided_json": "{\"minimum\": 1e999}"})", {"guided_json has a number that no float64 holds"}},
           {R"({"guided_json": [1]})", {"guided_json is [1]", "a JSON schema"}},
           {R"({"guided_regex": 3})", {"guided_regex is 3", "a text"}},
           {R"({"guided_choice": []})", {"guided_choice is []"}},
           {R"({"guided_choice": "yes"})", {"guided_choice is \"yes\""}},
           {R"({"guided_choice": ["yes", 1]})", {"guided_choice[1] is 1"}},
           {R"({"guided_grammar": "root ::= \"a\""})", {"guided_grammar", "GBNF", "Lark"}},
           {R"({"response_format": {"type": 1}})", {"response_format.type is 1"}},
           {R"({"structured_outputs": 1})", {"structured_outputs is 1", "an object"}},
           {R"({"structured_outputs": {"choice": ["a", 1]}})", {"structured_outputs.choice[1] is 1"}},
           {R"({"structured_outputs": {"json": "{"}})", {"structured_outputs.json is no JSON"}},
           {R"({"structured_outputs": {"regex": "a", "choice": ["a"]}})", {"structured_outputs has several forms"}},
           {R"({"structured_outputs": {"json_object": true, "choice": ["a"]}})", {"has several forms"}},
           {R"({"structured_outputs": {"structural_tag": "a"}})", {"structured_outputs has the member", "json, regex"}},
           {R"({"structured_outputs": {"regex": "a"}, "guided_regex": "a"})",
            {"guided_regex and structured_outputs are both there"}},
       }) {
    const std::string message = refusal([&] { (void)read_openai_constraint(row.json); });
    for (const std::string& word : row.words) EXPECT_THAT(message, HasSubstr(word)) << row.json;
  }
}

TEST(OllamaConstraint, IsJsonOrASchema) {
  for (const Row& row : std::vector<Row>{
           {"{}", {}},
           {R"({"format": ""})", {}},
           {R"({"format": null})", {}},
           {R"({"format": "json"})", {Kind::json_object, ""}},
           {R"({"format": {"b": 1, "a": 2}})", {Kind::json_schema, R"({"b":1,"a":2})"}},
       }) {
    EXPECT_EQ(read_ollama_constraint(row.json), row.constraint) << row.json;
  }
  const auto refused = [](const std::string& body) { return refusal([&] { (void)read_ollama_constraint(body); }); };
  EXPECT_THAT(refused(R"({"format": "yaml"})"),
              AllOf(HasSubstr("format is \"yaml\""), HasSubstr("\"json\", or a JSON schema")));
  EXPECT_THAT(refused(R"({"format": true})"), HasSubstr("format is true"));
  EXPECT_THAT(refused("x"), HasSubstr("the request is no JSON: wrong at byte 1"));
}

}  // namespace
}  // namespace generation
}  // namespace gpux
