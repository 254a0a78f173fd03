#include "text/token_constraint.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/refusal.h"
#include "gpux/error.h"
#include "text/token_words.h"

namespace gpux::text {
namespace {

using Kind = OutputConstraint::Kind;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr float forbidden = -std::numeric_limits<float>::infinity();
constexpr std::uint32_t end_token = 2;
const std::vector<std::string> words{"{\"", "\":", "\": ", "\", \"", "name", "true",     "12",
                                     "ab",  " ",   "  ",   "日",     "é",    "\xe6\x97", "\xa5\xe6",
                                     "xyz", " {",  " a",   "a b",    "1-",   "\n",       "ÿ"};

struct Model {
  Tokenizer tokenizer;
  std::vector<std::string> words;
  TokenVocabulary vocabulary;

  // Two logits more than there are tokens, as in models that round their vocabulary up.
  explicit Model(const Tokenizer& opened)
      : tokenizer(opened), words(test::words_of(opened)), vocabulary(opened, words.size() + 2, {{end_token}}) {}
};

const Model& model_of(const std::string& family) {
  static std::map<std::string, Model> models;
  const bool is_byte_level = family == "byte-level";
  std::vector<std::string> own;
  std::ranges::copy_if(words, std::back_inserter(own), [&](const std::string& word) {
    return is_byte_level || static_cast<unsigned char>(word.back()) < 0x80 || word == "日" || word == "é" ||
           word == "ÿ";
  });
  const auto found = models.find(family);
  if (found != models.end()) return found->second;
  return models.emplace(family, Model(Tokenizer::from_json(test::made_tokenizer(family, own)))).first->second;
}

std::vector<float> allowed(TokenConstraint& constraint, const Model& model) {
  std::vector<float> logits(model.vocabulary.logits(), 1);
  constraint.apply(logits);
  return logits;
}

bool takes(const Model& model, TokenConstraint constraint, const std::vector<std::uint32_t>& tokens) {
  for (const std::uint32_t token : tokens) {
    // Asking for what is forced changes nothing.
    if (token % 2 == 0) static_cast<void>(constraint.forced(4));
    if (allowed(constraint, model)[token] == forbidden) return false;
    constraint.accept(token);
  }
  const bool may_end = allowed(constraint, model)[end_token] != forbidden;
  EXPECT_EQ(may_end, constraint.may_end());
  return may_end;
}

enum class Answer : std::uint8_t { no, yes, differs };

// Whether the text comes out of tokens that were allowed: the same however it is cut into tokens.
Answer accepts(const Model& model, const TokenConstraint& constraint, const std::string& text) {
  constexpr int cuts = 6;
  std::mt19937 random(1);
  std::vector<bool> answers;
  for (const std::string& spelt : {text, " " + text}) {
    bool is_any = false, is_all = true, is_tried = false;
    for (int cut = 0; cut < cuts; ++cut) {
      const std::vector<std::uint32_t> tokens = test::random_tokens(spelt, model.words, random);
      if (model.tokenizer.decode(tokens) != text) continue;
      const bool is_taken = takes(model, constraint.clone(), tokens);
      is_any = is_any || is_taken;
      is_all = is_all && is_taken;
      is_tried = true;
    }
    if (is_tried && is_any != is_all) return Answer::differs;
    if (is_tried) answers.push_back(is_any);
  }
  if (answers.empty()) return Answer::differs;
  return std::ranges::find(answers, true) != answers.end() ? Answer::yes : Answer::no;
}

struct Row {
  Kind kind;
  std::string text;
  std::vector<std::string> accepted, refused;
};

class Families : public testing::TestWithParam<std::string> {
 protected:
  void check(const std::vector<Row>& rows) const {
    const Model& model = model_of(GetParam());
    for (const Row& row : rows) {
      SCOPED_TRACE(row.text);
      const TokenConstraint constraint(model.vocabulary, {row.kind, row.text});
      for (const std::string& text : row.accepted) EXPECT_EQ(accepts(model, constraint, text), Answer::yes) << text;
      for (const std::string& text : row.refused) EXPECT_EQ(accepts(model, constraint, text), Answer::no) << text;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(TokenConstraint, Families, testing::Values("byte-level", "stripping", "fallback", "metaspace"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(Families, JsonObjects) {
  check(
      {{Kind::json_object,
        "",
        {"{}", "{ }", R"({"a": [1, -2.5e3, true, null, {"b": ""}]})", "{\n  \"a\": \"é日\"\n}", R"({"\"\\\n": "\t"})"},
        {"", "[]", "1", "\"a\"", "{", "{\"a\"}", "{a: 1}", "{\"a\": 01}", "{\"a\": 1,}", "{} ", " {}", "{}{}",
         "{\"a\": +1}", "{'a': 1}", "{\"a\": NaN}", "{\"a\n\": 1}"}}});
}

TEST_P(Families, TypesAndValues) {
  check({
      {Kind::json_schema, "{}", {"1", "\"a\"", "{}", "[[]]", "null"}, {"", "a", "1 2", "nul"}},
      {Kind::json_schema, "true", {"1", "{}"}, {"", "x"}},
      {Kind::json_schema, R"({"type": "null"})", {"null"}, {"0", "\"null\"", "NULL"}},
      {Kind::json_schema, R"({"type": ["boolean", "null"]})", {"true", "false", "null"}, {"1", "\"true\""}},
      {Kind::json_schema,
       R"({"enum": ["a", 1, null, {"b": [2]}, 1.5]})",
       {"\"a\"", "1", "null", "{\"b\": [2]}", "1.5"},
       {"\"b\"", "2", "{\"b\":[]}", "{}", "1.51", "15"}},
      {Kind::json_schema, R"({"const": "a\"b"})", {R"("a\"b")"}, {"\"a\"", R"("a\"b" )", R"("a\\"b")"}},
      {Kind::json_schema, R"({"const": 3, "type": ["integer", "string"]})", {"3"}, {"4", "\"3\""}},
      {Kind::json_schema, R"({"enum": [1, "a", 2.5], "type": "integer"})", {"1"}, {"\"a\"", "2.5", "2"}},
  });
}

TEST_P(Families, Numbers) {
  check({
      {Kind::json_schema, R"({"type": "integer"})", {"0", "-1", "12345678901234567890"}, {"1.0", "01", "1e3", "-"}},
      {Kind::json_schema,
       R"({"type": "integer", "minimum": 5, "maximum": 17})",
       {"5", "9", "10", "17"},
       {"4", "18", "1", "-5", "05", "170"}},
      {Kind::json_schema,
       R"({"type": "integer", "exclusiveMinimum": -2, "exclusiveMaximum": 2})",
       {"-1", "0", "1"},
       {"-2", "2"}},
      {Kind::json_schema, R"({"type": "integer", "multipleOf": 12})", {"0", "12", "144", "-24"}, {"6", "13"}},
      {Kind::json_schema,
       R"({"type": "number", "minimum": 0.25, "maximum": 3.1925})",
       {"0.25", "0.250", "1", "3", "3.1", "3.19", "3.1925"},
       {"0.24", "0.2", "0", "3.1926", "3.2", "-1", "4"}},
      // Where the bounds are in one unit.
      {Kind::json_schema,
       R"({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5})",
       {"0.5", "0.1", "0.001", "0.49"},
       {"0", "0.0", "-0", "0.51", "1"}},
      {Kind::json_schema,
       R"({"allOf": [{"type": "number"}, {"exclusiveMinimum": 3}, {"exclusiveMaximum": 3.5}]})",
       {"3.1", "3.0001", "3.49"},
       {"3", "3.0", "3.5", "4"}},
      {Kind::json_schema,
       R"({"type": "number", "minimum": -0.5, "exclusiveMaximum": 0})",
       {"-0.5", "-0.1"},
       {"0", "-0", "-0.51", "0.1", "-1"}},
      {Kind::json_schema, R"({"const": 100.0})", {"100"}, {"10", "1000", "101"}},
  });
}

TEST_P(Families, Strings) {
  check({
      {Kind::json_schema, R"({"type": "string"})", {"\"\"", "\"é\"", R"("\"\\\n")"}, {"\"", "\"a\"b", "\"\\x\"", "a"}},
      {Kind::json_schema,
       R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"é日\"", "\"日日日\"", R"("\n\"")"},
       {"\"\"", "\"a\"", "\"日\"", "\"abab\""}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^[a-c]+$"})", {"\"ab\"", "\"c\""}, {"\"\"", "\"abd\""}},
      // Not anchored: somewhere in the text.
      {Kind::json_schema, R"({"type": "string", "pattern": "b"})", {"\"b\"", "\"ab日\""}, {"\"\"", "\"a\""}},
      {Kind::json_schema,
       R"({"type": "string", "pattern": "^a|b$"})",
       {"\"a\"", "\"ax\"", "\"xb\""},
       {"\"xa\"", "\"bx\"", "\"\""}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^\\d\\w$"})", {"\"1a\"", "\"0_\""}, {"\"1é\"", "\"aa\""}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^[^\"]/\\\\$"})", {R"("x/\\")"}, {R"("\"/\\")", R"("x/")"}},
      // No class has what its complement excludes.
      {Kind::json_schema,
       R"({"type": "string", "pattern": "^[^\"]{2}$"})",
       {R"("ab")", R"("\\\\")", R"("\n\t")"},
       {R"("\"a")", R"("a\"")"}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^[^\\\\]*$"})", {R"("\"a")"}, {R"("\\")", R"("a\\b")"}},
      {Kind::json_schema,
       R"({"type": "string", "pattern": "^\\W\\S.$"})",
       {R"("-xb")"},
       {R"("axb")", R"("- b")", R"("-x\n")"}},
      {Kind::json_schema,
       R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"0000-01-01\"", "\"2024-1-1\"", "\"2024-13-01\""}},
      {Kind::json_schema,
       R"({"type": "string", "format": "date-time", "pattern": "^2024"})",
       {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01t00:00:00.5-01:30\""},
       {"\"2023-01-01T00:00:00Z\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:60Z\"", "\"2024-01-01\""}},
      {Kind::json_schema,
       R"({"type": "string", "format": "ipv4"})",
       {"\"10.0.255.1\""},
       {"\"256.1.1.1\"", "\"1.1.1\""}},
      {Kind::json_schema,
       R"({"type": "string", "format": "uuid"})",
       {"\"12345678-1234-5678-1234-567812345678\""},
       {"\"12345678123456781234567812345678\""}},
  });
}

TEST_P(Families, Arrays) {
  check({
      {Kind::json_schema, R"({"type": "array"})", {"[]", "[1, \"a\", []]"}, {"[1,]", "[,]", "{}", "[1 2]"}},
      {Kind::json_schema,
       R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2]", "[1,2,3]"},
       {"[]", "[1,2,3,4]", "[\"a\"]", "[1, null]"}},
      {Kind::json_schema,
       R"({"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "items": false})",
       {"[]", "[1]", "[1, \"a\"]"},
       {"[2]", "[1, 2]", "[1, \"a\", 3]"}},
      {Kind::json_schema,
       R"({"type": "array", "items": [{"const": 1}], "additionalItems": {"const": 2}, "minItems": 2})",
       {"[1,2]", "[1,2,2]"},
       {"[1]", "[2,2]", "[1,1]"}},
  });
}

TEST_P(Families, Objects) {
  check({
      {Kind::json_schema,
       R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["a"],
           "additionalProperties": false})",
       {"{\"a\": 1}", "{\"a\":1,\"b\":true}"},
       {"{}", "{\"b\": true}", "{\"a\": \"x\"}", "{\"a\": 1, \"c\": 2}", "{\"b\": true, \"a\": 1}",
        "{\"a\":1,\"a\":2}"}},
      {Kind::json_schema,
       R"({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
       {"{}", "{\"a\": 1}", "{\"x\": \"y\"}", "{\"a\": 1, \"é\": \"\"}"},
       // Another spelling of a name would be the same property.
       {"{\"a\": \"x\"}", "{\"x\": 1}", "{\"\\u0061\": \"x\"}"}},
      {Kind::json_schema,
       R"({"type": "object", "patternProperties": {"^x": {"const": 1}}, "additionalProperties": false})",
       {"{}", "{\"x\": 1}", "{\"xyz\": 1}"},
       {"{\"x\": 2}", "{\"a\": 1}"}},
      // The pattern's properties are no additional ones, wherever they are written.
      {Kind::json_schema,
       R"({"patternProperties": {"^x": {"const": 1}}, "anyOf": [{"type": "object"}], "additionalProperties": false})",
       {"{\"x\": 1}"},
       {"{\"x\": 2}", "{\"a\": 1}", "1"}},
      {Kind::json_schema,
       R"({"type": "object", "required": ["b", "a"]})",
       {"{\"b\": 1, \"a\": 2}", "{\"b\": 1, \"a\": 2, \"c\": 3}"},
       {"{}", "{\"b\": 1}"}},
      {Kind::json_schema,
       R"({"type": "object", "properties": {"q\"": {"properties": {"in/~": {"const": 1}}, "type": "object"}}})",
       {R"({"q\"": {"in/~": 1}})"},
       {R"({"q\"": {"in/~": 2}})", R"({"q\"": 1})"}},
      {Kind::json_schema,
       R"({"type": "object", "maxProperties": 1, "minProperties": 1})",
       {"{\"a\": 1}"},
       {"{}", "{\"a\": 1, \"b\": 2}"}},
  });
}

TEST_P(Families, Combinations) {
  check({
      {Kind::json_schema,
       R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
       {"12", "\"a\""},
       {"\"ab\"", "null", "1.5"}},
      {Kind::json_schema, R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null"}},
      {Kind::json_schema,
       R"({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "$defs": {
             "cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "age": {"type": "integer"}},
                     "required": ["kind", "age"], "additionalProperties": false},
             "dog": {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"],
                     "additionalProperties": false}}})",
       {R"({"kind": "cat", "age": 12})", R"({"kind":"dog"})"},
       {R"({"kind":"cat"})", R"({"kind":"dog","age":1})"}},
      {Kind::json_schema, R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]})", {"3", "5"}, {"2", "6"}},
      {Kind::json_schema, R"({"type": "integer", "allOf": [{"minimum": 3}], "maximum": 5})", {"3", "5"}, {"2", "6"}},
      {Kind::json_schema, R"({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"const": 1}}})", {"1"}, {"2"}},
      {Kind::json_schema, R"({"$ref": "#/$defs/x%20y", "$defs": {"x y": {"const": 1}}})", {"1"}, {"2"}},
      {Kind::json_schema, R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[], [[]]]"}, {"[1]", "{}"}},
      {Kind::json_schema,
       R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
             "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"],
             "additionalProperties": false}}})",
       {R"({"next": null})", R"({"next": {"next": {"next": null}}})"},
       {R"({"next": {}})", "null"}},
  });
}

// As zod, pydantic, schemars and OpenAPI write them.
TEST_P(Families, KeywordsOfClients) {
  check({
      {Kind::json_schema,
       R"({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "integer"}})",
       {"{}", "{\"a\": 1}"},
       {"{\"a\": \"x\"}"}},
      {Kind::json_schema,
       R"({"type": "object", "propertyNames": {"$ref": "#/$defs/k"}, "additionalProperties": {"$ref": "#/$defs/v"},
           "$defs": {"k": {"enum": ["x", "y"]}, "v": {"type": "integer"}}})",
       {"{}", "{\"x\": 1}", "{\"x\": 1, \"y\": 12}"},
       {"{\"a\": 1}", "{\"x\": true}"}},
      {Kind::json_schema,
       R"({"type": "object", "propertyNames": {"pattern": "^[xy]$"}, "additionalProperties": {"type": "integer"}})",
       {"{}", "{\"x\": 1, \"y\": 2}"},
       {"{\"xy\": 1}", "{\"x\": true}"}},
      {Kind::json_schema,
       R"({"type": "object", "properties": {}, "propertyNames": {"type": "string", "minLength": 1, "maxLength": 2}})",
       {"{}", "{\"x\": 1}", "{\"xy\": true}"},
       {"{\"\": 1}", "{\"xyz\": 1}"}},
      {Kind::json_schema, R"({"type": "string", "format": "binary"})", {"\"\"", "\"ab\""}, {"1"}},
      {Kind::json_schema, R"({"type": "integer", "format": "int64"})", {"1"}, {"\"a\""}},
      {Kind::json_schema,
       R"({"type": "string", "maxLength": 1, "nullable": true})",
       {"null", "\"a\""},
       {"\"ab\"", "1"}},
      {Kind::json_schema, R"({"type": "string", "nullable": false})", {"\"a\""}, {"null"}},
      {Kind::json_schema,
       R"({"type": "integer", "nullable": true, "minimum": 5, "maximum": 12})",
       {"null", "5", "12"},
       {"4", "13", "5.5"}},
      {Kind::json_schema, R"({"type": "string", "enum": ["a"], "nullable": true})", {"\"a\""}, {"null", "\"b\""}},
      {Kind::json_schema, R"({"type": "string", "endsWith": ".png", "order": 3})", {"\"a\""}, {"1"}},
      {Kind::json_schema, R"({"anyOf": [{"type": "string"}, {"not": {}}]})", {"\"a\""}, {"1", "null"}},
      {Kind::json_schema, R"({"type": "null", "not": false})", {"null"}, {"1"}},
      {Kind::json_schema,
       R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})",
       {"0", "-12", "9007199254740991", "-9007199254740991"},
       {"9223372036854775808", "-9223372036854775809", "1.5"}},
      {Kind::json_schema,
       R"({"type": "integer", "minimum": 0, "maximum": 18446744073709551615})",
       {"0", "9007199254740991"},
       {"-1", "18446744073709551616"}},
      {Kind::json_schema, R"({"type": "number", "minimum": 0, "maximum": 1e300})", {"0.5", "12"}, {"-1", "-0.5"}},
  });
}

// Where no name is left, no property begins.
TEST_P(Families, NamesThatAreAllTaken) {
  check({
      {Kind::json_schema,
       R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false,
           "patternProperties": {"^a$": {"minimum": 12}}})",
       {"{\"a\": 12}"},
       {"{\"a\": 1}", "{\"a\": 12,", "{\"a\": 12, \"b\": 1}", "{}"}},
      // A name that is required alone has what the pattern says.
      {Kind::json_schema,
       R"({"type": "object", "required": ["b"], "additionalProperties": false, "patternProperties": {"^b$": {"const": 1}}})",
       {"{\"b\": 1}"},
       {"{\"b\": 2}", "{}", "{\"b\": 1, \"b\": 1}"}},
      {Kind::json_schema,
       R"({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2},
           "patternProperties": {"^a$": true}})",
       {"{}", "{\"a\": 1}", "{\"a\": 1, \"b\": 2}"},
       {"{\"b\": 1}"}},
      {Kind::json_schema,
       R"({"type": "object", "properties": {"a": {}}, "patternProperties": {"^[^a]|^$|..": false}})",
       {"{}", "{\"a\": 1}"},
       {"{\"b\": 1}", "{\"a\": 1,"}},
      // JSON has no short spelling of this character.
      {Kind::json_schema,
       R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false,
           "patternProperties": {"^\u0001": {"const": 1}, "^\\x02$": {}}})",
       {"{\"a\": 1}"},
       {"{\"a\": 1,"}},
      {Kind::json_schema, R"({"anyOf": [{"type": "string", "pattern": "^\u0001b$"}, {"const": 1}]})", {"1"}, {"\"b\""}},
  });
}

TEST_P(Families, RegularExpressions) {
  check({
      {Kind::regex, "[ab]+", {"a", "abba"}, {"", "abc", "ca"}},
      {Kind::regex, "^[ab]+$", {"a", "abba"}, {"", "abc"}},
      {Kind::regex, "^a$|^b", {"a", "b"}, {"ab", "bb", ""}},
      {Kind::regex, "", {""}, {"a", " "}},
      {Kind::regex, "(a|b c)?", {"", "a", "b c"}, {"b", "bc"}},
      {Kind::regex, "日.{2}", {"日éa", "日日日"}, {"日é", "日éab", "日a\n"}},
      {Kind::regex, " ?a", {"a", " a"}, {"", "  a"}},
      {Kind::regex, " *", {"", " ", "   "}, {"a"}},
      {Kind::regex, "a/b\\/c\"\n", {"a/b/c\"\n"}, {"a/b/c\""}},
      {Kind::regex, "(?i)AB", {"ab", "Ab"}, {"a"}},
      {Kind::regex, "(?x) a b # two", {"ab"}, {"a b", "ab # two"}},
      {Kind::regex, "a{2,3}", {"aa", "aaa"}, {"a", "aaaa"}},
  });
}

TEST_P(Families, Grammars) {
  check({
      {Kind::grammar, "start: \"a\" start \"b\" | \"\"", {"", "ab", "aaabbb"}, {"a", "aab", "ba"}},
      {Kind::grammar, "start: sum\nsum: NUM (\" + \" NUM)*\nNUM: /[0-9]+/\n", {"1", "12 + 3"}, {"", "1+2", "1 + "}},
      {Kind::grammar, "start: \" x\" | \"y\"", {" x", "y"}, {"x", " y", "  x"}},
      {Kind::grammar,
       "// a comment with %json\nstart: \"<\" %json {\"type\": \"integer\",\n \"minimum\": 3} \">\"\n",
       {"<3>", "<12>"},
       {"<2>", "<>", "<\"a\">"}},
      {Kind::grammar, "start: /\"/ \"%json {\" x\nx: \"y\"", {"\"%json {y"}, {"\""}},
      {Kind::grammar, "%import common.INT\nstart: INT \",\" INT", {"1,2"}, {"1,", "a,b"}},
  });
}

// Bytes of a character may come in several tokens.
TEST(TokenConstraint, CharactersInPieces) {
  const Model& model = model_of("byte-level");
  TokenConstraint constraint(model.vocabulary, {Kind::regex, "[日本]é"});
  const auto token = [&](std::string_view word) {
    return static_cast<std::uint32_t>(std::ranges::find(model.words, word) - model.words.begin());
  };
  constraint.accept(token("\xe6\x97"));
  EXPECT_FALSE(constraint.may_end());
  std::vector<float> logits = allowed(constraint, model);
  EXPECT_NE(logits[token("\xa5")], forbidden);
  EXPECT_EQ(logits[token("\xa5\xe6")], forbidden);
  EXPECT_EQ(logits[token("\xac")], forbidden);  // of 本, which begins with other bytes
  constraint.accept(token("\xa5"));
  constraint.accept(token("é"));
  EXPECT_TRUE(constraint.is_finished());
}

// All of them apply behind the first brace.
TEST(TokenConstraint, TakesHundredsOfOptionalProperties) {
  const Model& model = model_of("byte-level");
  std::string properties;
  for (int i = 0; i < 500; ++i) {
    properties += (i == 0 ? "" : ", ") + ("\"p" + std::to_string(i)) + R"(": {"type": "integer"})";
  }
  for (const std::string& schema :
       {R"({"type": "object", "properties": {)" + properties + "}}",
        R"({"type": "object", "properties": {"in": {"type": "object", "properties": {)" + properties + "}}}}"}) {
    const TokenConstraint constraint(model.vocabulary, {Kind::json_schema, schema});
    const bool is_inner = schema.find("\"in\"") != std::string::npos;
    const std::string object = R"({"p3":1,"p499":2})";
    EXPECT_EQ(accepts(model, constraint, is_inner ? "{\"in\":" + object + "}" : object), Answer::yes);
  }
}

// The property is not there, or those that it needs are, too.
TEST(TokenConstraint, EnforcesDependentRequired) {
  const Model& model = model_of("byte-level");
  const auto takes_text = [&](const std::string& schema, const std::string& text) {
    return accepts(model, TokenConstraint(model.vocabulary, {Kind::json_schema, schema}), text);
  };
  const std::string one = R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}})";
  const std::string two = R"({"type": "object", "dependentRequired": {"a": ["b"], "c": ["a"], "d": []}})";
  for (const auto& [schema, text, expected] : std::vector<std::tuple<std::string, std::string, Answer>>{
           {one, "{}", Answer::yes},
           {one, R"({"b":1})", Answer::yes},
           {one, R"({"a":1})", Answer::no},
           {one, R"({"a":1,"b":1})", Answer::yes},
           {one, R"({"a":1,"x":1})", Answer::no},
           {two, R"({"c":1})", Answer::no},
           {two, R"({"x":1,"d":1})", Answer::yes},
           {two, R"({"a":1,"b":1,"c":1})", Answer::yes},
           {R"({"dependentRequired": {"a": ["b"]}})", "[1]", Answer::yes},
           {R"({"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"]}})", R"({"a":1})", Answer::no},
       }) {
    EXPECT_EQ(takes_text(schema, text), expected) << schema << ' ' << text;
  }
  for (const auto& [schema, said] : std::vector<std::pair<std::string, std::string>>{
           {R"({"dependentRequired": {"a": "b"}})",
            "at #/dependentRequired/a: dependentRequired is \"b\"; accepted: a list"},
           {R"({"dependentRequired": {"a": [], "b": [], "c": [], "d": [], "e": []}})",
            "at #/dependentRequired: it has 5 properties; accepted: up to 4"},
           {R"({"patternProperties": {"x": {}}, "dependentRequired": {"a": ["b"]}})",
            "at #/dependentRequired: next to patternProperties it is not supported"},
       }) {
    EXPECT_THAT(refusal([&] { TokenConstraint(model.vocabulary, {Kind::json_schema, schema}); }), HasSubstr(said));
  }
}

// A part between special tokens, which may be missing, and the form behind it.
TEST(TokenConstraint, StandsInAFrameOfTokens) {
  constexpr std::uint32_t begin = 1, end = 0;
  const std::string frame = "start: thought? @form\nthought: <[1]> TEXT <[0]>\nTEXT: /(.|\\n)*/";
  for (const char* family : {"byte-level", "stripping", "fallback", "metaspace"}) {
    SCOPED_TRACE(family);
    const Model& model = model_of(family);
    const auto token = [&](std::string_view word) {
      return static_cast<std::uint32_t>(std::ranges::find(model.words, word) - model.words.begin());
    };
    for (const OutputConstraint& form :
         std::vector<OutputConstraint>{{Kind::regex, "ab(12)?", frame},
                                       {Kind::json_schema, R"({"const": 12})", frame},
                                       {Kind::json_object, "", frame},
                                       {Kind::grammar, "start: \"ab\" | \"12\"", frame}}) {
      const TokenConstraint constraint(model.vocabulary, form);
      const std::uint32_t first = form.kind == Kind::json_object   ? token("{")
                                  : form.kind == Kind::json_schema ? token("12")
                                                                   : token("ab");
      TokenConstraint at_once = constraint.clone();
      std::vector<float> logits = allowed(at_once, model);
      EXPECT_NE(logits[first], forbidden);
      EXPECT_NE(logits[begin], forbidden);
      EXPECT_EQ(logits[end], forbidden);
      EXPECT_EQ(logits[token("xyz")], forbidden);
      TokenConstraint after = constraint.clone();
      for (const std::uint32_t one : {begin, token("xyz"), token("a"), end}) {
        EXPECT_NE(allowed(after, model)[one], forbidden) << one;
        after.accept(one);
      }
      logits = allowed(after, model);
      EXPECT_NE(logits[first], forbidden);
      EXPECT_EQ(logits[begin], forbidden);
      EXPECT_EQ(logits[token("xyz")], forbidden);
      EXPECT_FALSE(after.may_end());
    }
  }
  const Model& model = model_of("byte-level");
  TokenConstraint alone(model.vocabulary, {Kind::grammar, "", "start: <[1]>"});
  alone.accept(begin);
  EXPECT_TRUE(alone.is_finished());
  EXPECT_THAT(refusal([&] {
                TokenConstraint(model.vocabulary, {Kind::regex, "(", frame});
              }),
              HasSubstr("regular expression"));
  EXPECT_THAT(refusal([&] {
                TokenConstraint(model.vocabulary, {Kind::regex, "a", "start: <s> @form"});
              }),
              HasSubstr("it has a token that is not written as <[ID]>"));
  EXPECT_THAT(refusal([&] {
                TokenConstraint(model.vocabulary, {Kind::grammar, "start: <[1]>", "start: @form"});
              }),
              HasSubstr("it has special tokens (<…>), which are not supported"));
}

TEST(TokenConstraint, SpecialTokensAndThoseBehindTheVocabularyAreNeverAllowed) {
  for (const char* family : {"byte-level", "stripping", "fallback"}) {
    const Model& model = model_of(family);
    for (const OutputConstraint& wanted : std::vector<OutputConstraint>{
             {Kind::regex, "(?s).*"}, {Kind::json_schema, R"({"type": "string"})"}, {Kind::regex, "<s>|</s>|<unk>"}}) {
      TokenConstraint constraint(model.vocabulary, wanted);
      const std::vector<float> logits = allowed(constraint, model);
      EXPECT_EQ(logits[0], forbidden);
      EXPECT_EQ(logits[1], forbidden);
      EXPECT_EQ(logits[end_token] == forbidden, !constraint.may_end());
      EXPECT_EQ(logits[model.words.size()], forbidden);
      EXPECT_EQ(logits[model.words.size() + 1], forbidden);
    }
  }
}

TEST(TokenConstraint, AllowedLogitsStayAsTheyWere) {
  const Model& model = model_of("byte-level");
  TokenConstraint constraint(model.vocabulary, {Kind::regex, "[ab]+"});
  std::vector<float> logits(model.vocabulary.logits());
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i) - 100;
  constraint.apply(logits);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool is_word = i < model.words.size() && !model.words[i].empty() &&
                         model.words[i].find_first_not_of("ab") == std::string::npos;
    EXPECT_EQ(logits[i], is_word ? static_cast<float>(i) - 100 : forbidden) << i;
    kept += is_word ? 1 : 0;
  }
  EXPECT_EQ(kept, 3U);  // a, b and ab
  EXPECT_THAT(refusal([&] { constraint.apply({logits.data(), 5}); }), HasSubstr("5 logits; accepted: "));
}

TEST(TokenConstraint, WhereItEnds) {
  const Model& model = model_of("byte-level");
  const auto token = [&](std::string_view word) {
    return static_cast<std::uint32_t>(std::ranges::find(model.words, word) - model.words.begin());
  };
  TokenConstraint constraint(model.vocabulary, {Kind::regex, "a(xyz)?b?"});
  EXPECT_FALSE(constraint.may_end());
  constraint.accept(token("a"));
  EXPECT_TRUE(constraint.may_end());
  EXPECT_FALSE(constraint.is_finished());
  constraint.accept(token("xyz"));
  TokenConstraint other = constraint.clone();
  constraint.accept(token("b"));
  EXPECT_TRUE(constraint.may_end());
  EXPECT_TRUE(constraint.is_finished());
  const std::vector<float> logits = allowed(constraint, model);
  EXPECT_EQ(std::ranges::count_if(logits, [](float logit) { return logit != forbidden; }), 1);
  EXPECT_NE(logits[end_token], forbidden);
  // The copy is where it was.
  EXPECT_FALSE(other.is_finished());
  other.accept(end_token);
  EXPECT_TRUE(other.is_finished());
}

TEST(TokenConstraint, ATokenThatIsNotAllowedChangesNothing) {
  const Model& model = model_of("byte-level");
  const auto token = [&](std::string_view word) {
    return static_cast<std::uint32_t>(std::ranges::find(model.words, word) - model.words.begin());
  };
  TokenConstraint constraint(model.vocabulary, {Kind::regex, "ab"});
  for (const std::uint32_t wrong : {token("b"), token("xyz"), std::uint32_t{1}, end_token, std::uint32_t{1'000'000}}) {
    try {
      constraint.accept(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr(std::to_string(wrong) + " is not allowed here"));
    }
  }
  constraint.accept(token("a"));
  constraint.accept(token("b"));
  EXPECT_TRUE(constraint.is_finished());
}

// A model may have none, or several, and their text is nothing that comes out.
TEST_P(Families, TokensThatAreForced) {
  const Model& model = model_of(GetParam());
  TokenConstraint constraint(model.vocabulary, {Kind::json_schema, R"({"type": "object", "required": ["nametrueab"],
      "properties": {"nametrueab": {"type": "boolean"}}, "additionalProperties": false})"});
  const auto token_of = [&](std::string_view word) {
    return static_cast<std::uint32_t>(std::ranges::find(model.words, word) - model.words.begin());
  };
  const auto take = [&](std::uint32_t token) {
    ASSERT_NE(allowed(constraint, model)[token], forbidden) << model.words[token];
    constraint.accept(token);
  };
  // White space is allowed before and behind what a member has.
  EXPECT_TRUE(constraint.forced(100).empty());
  if (allowed(constraint, model)[token_of("{\"")] == forbidden) {
    take(token_of(" {"));
    take(token_of("\""));
  } else {
    take(token_of("{\""));
  }
  const std::vector<std::uint32_t> name{token_of("name"), token_of("true"), token_of("ab")};
  EXPECT_EQ(constraint.forced(100), name);
  EXPECT_EQ(constraint.forced(2), std::vector(name.begin(), name.begin() + 2));
  take(name[0]);
  EXPECT_EQ(constraint.forced(100), std::vector(name.begin() + 1, name.end()));
  // Another spelling of it.
  take(token_of("t"));
  const std::vector<std::uint32_t> rest = constraint.forced(100);
  ASSERT_EQ(rest.size(), 4);
  EXPECT_EQ(rest.back(), token_of("ab"));
  for (const std::uint32_t token : rest) take(token);
  EXPECT_TRUE(constraint.forced(100).empty());
  take(token_of("\":"));
  // Now there are two texts.
  EXPECT_TRUE(constraint.forced(100).empty());
  take(token_of("true"));
  EXPECT_TRUE(constraint.forced(100).empty());
  take(token_of("}"));
  EXPECT_TRUE(constraint.is_finished());
  EXPECT_TRUE(constraint.forced(100).empty());
}

TEST(TokenConstraint, EndTokens) {
  const Model& model = model_of("byte-level");
  const TokenVocabulary none(model.tokenizer, model.words.size(), {});
  TokenConstraint endless(none, {Kind::regex, "a?"});
  std::vector<float> logits(none.logits(), 1);
  endless.apply(logits);
  EXPECT_EQ(std::ranges::count(logits, 1), 1);
  EXPECT_TRUE(endless.may_end());
  const auto a = static_cast<std::uint32_t>(std::ranges::find(model.words, "a") - model.words.begin());
  const std::vector<std::uint32_t> ends{end_token, 1, a, 1'000'000};
  const TokenVocabulary several(model.tokenizer, model.words.size(), ends);
  TokenConstraint constraint(several, {Kind::regex, "(ab)?"});
  std::ranges::fill(logits, 1.F);
  constraint.apply(logits);
  EXPECT_EQ(logits[1], 1);
  EXPECT_EQ(logits[2], 1);
  EXPECT_EQ(logits[a], 1);  // as an end; the text begins with the token "ab"
  EXPECT_EQ(std::ranges::count(logits, 1), 4);
}

TEST(TokenVocabulary, IsMadeOnce) {
  const Model& model = model_of("fallback");
  const std::size_t logits = model.words.size() + 2;
  const std::vector<std::uint32_t> twice{end_token, end_token}, other{1};
  EXPECT_EQ(TokenVocabulary(model.tokenizer, logits, twice), model.vocabulary);
  EXPECT_NE(TokenVocabulary(model.tokenizer, logits, other), model.vocabulary);
  EXPECT_NE(TokenVocabulary(model.tokenizer, logits + 1, twice), model.vocabulary);
}

TEST(TokenConstraint, KeepsItsVocabulary) {
  const Model& model = model_of("byte-level");
  TokenConstraint constraint(TokenVocabulary(model.tokenizer, model.words.size() + 7, {}), {Kind::regex, "a"});
  std::vector<float> logits(model.words.size() + 7, 1);
  constraint.apply(logits);
  EXPECT_EQ(std::ranges::count(logits, 1), 1);
}

TEST(TokenConstraint, SeveralThreadsUseAVocabulary) {
  const Model& model = model_of("byte-level");
  const TokenConstraint first(model.vocabulary, {Kind::json_object, ""});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      TokenConstraint own = i % 2 == 0 ? first.clone() : TokenConstraint(model.vocabulary, {Kind::regex, "[0-9]{40}"});
      std::mt19937 random(static_cast<unsigned>(i));
      for (int step = 0; step < 30 && !own.is_finished(); ++step) {
        std::vector<float> logits = allowed(own, model);
        std::vector<std::uint32_t> kept;
        for (std::uint32_t id = 0; id < logits.size(); ++id) {
          if (logits[id] != forbidden && id != end_token) kept.push_back(id);
        }
        if (kept.empty()) break;
        own.accept(kept[random() % kept.size()]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string refused(Kind kind, const std::string& text) {
  return refusal([&] { const TokenConstraint made(model_of("byte-level").vocabulary, {kind, text}); });
}

TEST(TokenConstraint, SaysWhyASchemaCannotBeUsed) {
  struct Case {
    std::string schema;
    std::vector<std::string> words;
  };

  for (const Case& wanted : std::vector<Case>{
           {"{", {"JSON schema: it is no JSON", "line 1 column 1"}},
           {"[]", {"at #: a schema is []", "an object, true or false"}},
           {"false", {"no text fits"}},
           {R"({"not": {"type": "null"}})", {"at #/not: the keyword not is not supported; accepted: type, const"}},
           {R"({"not": {}})", {"no text fits"}},
           {R"({"properties": {"a/b": {"uniqueItems": true}}})", {"at #/properties/a~1b/uniqueItems"}},
           {R"({"if": {}})", {"keyword if"}},
           {R"({"dependentSchemas": {}})", {"keyword dependentSchemas"}},
           {R"({"propertyNames": {"format": "date"}})", {"at #/propertyNames: format", "enum, const and pattern"}},
           {R"({"propertyNames": {"const": "a"}, "properties": {"a": {}}})",
            {"at #/propertyNames", "next to properties"}},
           {R"({"unevaluatedProperties": false})", {"keyword unevaluatedProperties"}},
           {R"({"contains": {}})", {"keyword contains"}},
           {R"({"nullable": "yes"})", {"at #/nullable", "true or false"}},
           {R"({"minlength": 3})", {"at #/minlength", "keyword minlength is unknown; is minLength meant?"}},
           {R"({"requried": ["a"]})", {"is required meant?"}},
           {R"({"item": {}})", {"is items meant?"}},
           {R"({"x-guidance": {"lenient": true}})", {"keyword x-guidance"}},
           {R"({"$schema": "http://example.com"})", {"$schema is", "2020-12"}},
           {R"({"type": "text"})", {"at #/type: type is \"text\"", "null, boolean, integer"}},
           {R"({"type": []})", {"type is []"}},
           {R"({"format": "iri"})", {"format is \"iri\"", "date-time"}},
           {R"({"format": 1})", {"format is 1", "date-time"}},
           {R"({"pattern": "(a"})", {"at #/pattern", "wrong at character 1: unclosed group"}},
           {R"({"pattern": "a\\bc"})", {"at #/pattern", "\\b"}},
           {R"({"pattern": "(?=a)b"})", {"at #/pattern", "look-around"}},
           {R"({"enum": []})", {"at #/enum", "at least one value"}},
           {R"({"anyOf": []})", {"at #/anyOf", "at least one schema"}},
           {R"({"minimum": "3"})", {"at #/minimum", "a number"}},
           {R"({"minimum": 1e300})", {"at #/minimum", "2^53"}},
           {R"({"type": "integer", "maximum": -9007199254740993})", {"at #/maximum", "2^53"}},
           {R"({"const": 9007199254740993})", {"at #/const", "2^53"}},
           {R"({"enum": ["a", "\u0001"]})", {"at #/enum", "control characters"}},
           {R"({"maxLength": -1})", {"at #/maxLength", "0 to 1000000"}},
           {R"({"multipleOf": 0})", {"at #/multipleOf", "above 0"}},
           {R"({"required": "a"})", {"at #/required", "a list of names"}},
           {R"({"properties": []})", {"at #/properties", "an object of schemas"}},
           {R"({"properties": {"a": 1}})", {"at #/properties/a", "an object, true or false"}},
           {R"({"$ref": "other.json"})", {"$ref is \"other.json\"", "a JSON pointer"}},
           {R"({"$ref": "#/$defs/a"})", {"$ref is \"#/$defs/a\", and there is nothing"}},
           {R"({"$ref": "#name"})", {"$ref is \"#name\""}},
           {R"({"properties": {"a": {"$id": "b"}}})", {"$id is accepted at the root only"}},
           {R"({"$defs": {"a": {"if": {}}}, "items": {"$ref": "#/$defs/a"}})", {"at #/$defs/a/if"}},
           {R"({"additionalItems": false})", {"additionalItems"}},
           {R"({"items": [true], "prefixItems": [true]})", {"prefixItems"}},
           {R"({"type": "object", "minProperties": 2})", {"minProperties is 2"}},
           {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", {"at #: ", "oneOf", "anyOf"}},
           {R"({"properties": {"a": false, "b": {"items": {"oneOf": [{"minimum": 0}, {"maximum": 9}]}}}})",
            {"at #/properties/b/items: the schemas of a oneOf"}},
           {R"({"type": "integer", "minimum": 3, "maximum": 2})", {"minimum (3) is greater than maximum (2)"}},
           {R"({"type": "string", "const": 3})", {"at #: no text fits it: incompatible types"}},
           {R"({"properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"],
                "$defs": {"b": {"type": "string", "minLength": 5, "maxLength": 3}}})",
            {"at #/$defs/b: no text fits it: minLength (5) is greater than maxLength (3)"}},
       }) {
    for (const std::string& word : wanted.words)
      EXPECT_THAT(refused(Kind::json_schema, wanted.schema), HasSubstr(word)) << wanted.schema;
  }
}

// An answer that had begun such a part would have to be given up.
TEST(TokenConstraint, RefusesWhatCannotBeFinished) {
  const std::string reason = "no text fits a part of it, so that an answer could not be finished";
  for (const auto& [schema, place] : std::vector<std::pair<std::string, std::string>>{
           {R"({"$ref": "#"})", "#"},
           {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "#/properties/a"},
           {R"({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$ref": "#/$defs/b"}}})", "#/$defs/b"},
           {R"({"items": {"$ref": "#/$defs/b"}, "$defs": {"b": {"anyOf": [{"$ref": "#/$defs/b"}]}}})",
            "#/$defs/b/anyOf/0"},
           {R"({"allOf": [{"type": "object", "patternProperties": {"^a$": {}}, "additionalProperties": false},
                          {"properties": {"a": {"type": "integer"}}, "required": ["a"]}]})",
            "#"},
       }) {
    EXPECT_THAT(refused(Kind::json_schema, schema), HasSubstr("at " + place + ": " + reason)) << schema;
  }
  EXPECT_THAT(refused(Kind::grammar, "start: \"a\" x\nx: \"b\" x"), HasSubstr(reason));
  EXPECT_THAT(refused(Kind::grammar, "start: \"a\" X | \"b\"\nX: /[a&&b]/"), HasSubstr(reason));
  EXPECT_THAT(refused(Kind::grammar, "start: %json {\"$ref\": \"#\"}"), HasSubstr(reason));
}

// The rules of all alternatives apply at once behind the brace.
TEST(TokenConstraint, RefusesStepsThatAreTooComplexBeforeTheFirstToken) {
  std::string wide = R"({"anyOf": [)";
  for (int i = 0; i < 500; ++i) {
    wide += i == 0 ? R"({"type": "object", "properties": {)" : R"(, {"type": "object", "properties": {)";
    for (int k = 0; k < 10; ++k) {
      wide += (k == 0 ? "\"p" : ", \"p") + std::to_string(i) + "_" + std::to_string(k) + "\": {}";
    }
    wide += "}}";
  }
  wide += "]}";
  const std::string reason = ": the next token is too complex: ";
  EXPECT_THAT(refused(Kind::json_schema, wide), HasSubstr("at #" + reason));
  EXPECT_THAT(refused(Kind::json_schema, R"({"items": {"properties": {"x": )" + wide + "}}}"),
              HasSubstr("at #/items/properties/x" + reason));
  EXPECT_THAT(refused(Kind::grammar, "start: \"f: \" %json " + wide), HasSubstr("at #" + reason));
}

TEST(TokenConstraint, SaysWhyAnExpressionOrGrammarCannotBeUsed) {
  EXPECT_THAT(refused(Kind::regex, "ab)"),
              AllOf(HasSubstr("regular expression"), HasSubstr("at character 3: unopened group")));
  EXPECT_THAT(refused(Kind::regex, "a\\"), HasSubstr("at character 2"));
  EXPECT_THAT(refused(Kind::regex, "(?P<stop>a)b"), HasSubstr("a group of the name stop"));
  EXPECT_THAT(refused(Kind::regex, "a^b"), HasSubstr("lookarounds not supported"));
  EXPECT_THAT(refused(Kind::regex, "(?m)^a"), HasSubstr("(?m)^"));
  EXPECT_THAT(refused(Kind::regex, "\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(refused(Kind::grammar, "start: x"), AllOf(HasSubstr("grammar: "), HasSubstr("\"x\"")));
  EXPECT_THAT(refused(Kind::grammar, "start: \"a\n"), HasSubstr("line 1, column 10: this is no part of a grammar"));
  EXPECT_THAT(refused(Kind::grammar, "begin: \"a\""), HasSubstr("no start rule"));
  EXPECT_THAT(refused(Kind::grammar, "start: <s> \"a\""), HasSubstr("special tokens"));
  EXPECT_THAT(refused(Kind::grammar, "start: <[1-3]>"), HasSubstr("special tokens"));
  EXPECT_THAT(refused(Kind::grammar, "start: x \"b\"\nx[stop=\"b\"]: /.*/"), HasSubstr("stop="));
  EXPECT_THAT(refused(Kind::grammar, "start: x\nx[temperature=0.5]: /a+/"), HasSubstr("temperature="));
  EXPECT_THAT(refused(Kind::grammar, "start: x\nx[max_tokens=5]: /a+/"), HasSubstr("max_tokens="));
  EXPECT_THAT(refused(Kind::grammar, "start: %json {\"not\": {}}"), HasSubstr("no text fits it"));
  EXPECT_THAT(refused(Kind::grammar, "start: %json {\"if\": {}}"), HasSubstr("at #/if"));
  EXPECT_THAT(refused(Kind::grammar, "start: %json {\"x-guidance\": {\"lenient\": true}}"), HasSubstr("x-guidance"));
  EXPECT_THAT(refused(Kind::json_object, "{}"), HasSubstr("json_object"));
}

TEST(TokenConstraint, ItsCostIsLimited) {
  EXPECT_THAT(refused(Kind::regex, std::string(300 << 10, 'a')), HasSubstr("307200 bytes; accepted: up to 262144"));
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += R"({"items":)";
  EXPECT_THAT(refused(Kind::json_schema, deep + "{}" + std::string(300, '}')), HasSubstr("recursion limit"));
  // Each definition needs the one before twice.
  std::string chain = R"({"$ref": "#/$defs/d5000", "$defs": {"d0": {"type": "null"})";
  for (int i = 1; i <= 5000; ++i) {
    chain += ", \"d" + std::to_string(i) + R"(": {"items": {"$ref": "#/$defs/d)" + std::to_string(i - 1) + "\"}}";
  }
  EXPECT_THAT(refused(Kind::json_schema, chain + "}}"), Not(HasSubstr("nothing was refused")));
  EXPECT_THAT(refused(Kind::regex, "((((a{1,1000}){1,1000}){1,1000}){1,1000})"), Not(HasSubstr("llguidance failed")));
}

TEST(TokenVocabulary, RefusesTokensThatAreSpeltByTheirNeighbours) {
  const auto data = [](const std::string& name) {
    return Tokenizer::from_file(std::filesystem::path(GPUX_SOURCE_DIR) / "tests/text/data" / name);
  };
  EXPECT_THAT(
      refusal([&] { const TokenVocabulary made(data("wordpiece.json"), 1500, {}); }),
      AllOf(HasSubstr("constrained output is not available with this model's tokenizer"), HasSubstr("WordPiece")));
  EXPECT_THAT(refusal([&] { const TokenVocabulary made(data("bpe.json"), 0, {}); }), HasSubstr("0 logits"));
  const TokenVocabulary bpe(data("bpe.json"), 1500, {}), unigram(data("unigram.json"), 1400, {});
  EXPECT_EQ(unigram.logits(), 1400U);
}

}  // namespace
}  // namespace gpux::text
