// What clients of text models write, taken apart.
#include <array>
#include <functional>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/refusal.h"
#include "gpux/error.h"
#include "server/protocols/openai/embedding_requests.h"
#include "server/protocols/request_json.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<std::string_view, 2> sides{"left", "right"};
constexpr std::array<Field, 7> field_table{{
    {"name", FieldKind::text, FieldUse::required},
    {"side", FieldKind::choice, FieldUse::optional, nullptr, sides},
    {"few", FieldKind::whole, FieldUse::optional, nullptr, {}, 3},
    refused_field("old", "accepted is name"),
    ignored_field("label"),
    refused_field("penalty", "accepted is 1", "1"),
    refused_field("thinks", "the model always does", "true"),
}};
constexpr std::array<Field, 1> more_fields{{{"more", FieldKind::flag}}};

TEST(FieldsOfRequests, SayWhatIsAccepted) {
  struct Line {
    const char *body, *problem;
  };

  for (const Line& line : std::vector<Line>{
           {R"({"name": "a", "side": "left", "few": 3, "old": null})", ""},
           {R"({"side": "left"})", "name is missing"},
           {R"({"name": null})", "name is missing"},
           {R"({"name": 1})", "name is no text"},
           {R"({"name": "a", "side": "top"})", "side is 'top'; accepted: left, right"},
           {R"({"name": "a", "few": 4})", "few is no whole number from 0 to 3"},
           {R"({"name": "a", "old": 1})", "old: accepted is name"},
           {R"({"name": "a", "old": null, "label": {"a": [1]}, "new": null})", ""},
           {R"({"name": "a", "old": "", "penalty": 1.0, "thinks": true})", ""},
           {R"({"name": "a", "old": [], "penalty": null, "thinks": {}})", ""},
           {R"({"name": "a", "old": false})", "old: accepted is name"},
           {R"({"name": "a", "old": 0})", "old: accepted is name"},
           {R"({"name": "a", "penalty": 0})", "penalty: accepted is 1"},
           {R"({"name": "a", "thinks": false})", "thinks: the model always does"},
           {R"({"name": "a", "new": 1})",
            "new is not known; accepted: few, label, more, name, old, penalty, side, thinks"},
       }) {
    SCOPED_TRACE(line.body);
    const RequestJson json = RequestJson::parse(line.body);
    Members members(json, "", field_table, nullptr);
    members.also(more_fields);
    std::string problem;
    try {
      (void)members.text("name");
      members.ignore("side");
      members.ignore("few");
      members.ignore("more");
      members.finish();
    } catch (const RequestError& error) {
      problem = error.message();
    }
    EXPECT_EQ(problem, line.problem);
  }
}

// A field that no reader asks for would be accepted and change nothing.
TEST(FieldsOfRequests, AreReadByTheirReaders) {
  const RequestJson json = RequestJson::parse(R"({"name": "a", "few": 1})");
  Members members(json, "", field_table, nullptr);
  EXPECT_EQ(members.text("name"), "a");
  EXPECT_THROW(members.finish(), std::logic_error);
  EXPECT_THROW((void)members.text("none"), std::logic_error);
  EXPECT_THROW((void)members.flag("few", false), std::logic_error);
  EXPECT_EQ(members.whole("few"), 1U);
  EXPECT_NO_THROW(members.finish());
}

// Members that change nothing are counted under the names of the table; clients make up the others.
TEST(FieldsOfRequests, AreCountedWhereTheyChangeNothing) {
  const RequestJson json = RequestJson::parse(
      R"({"name": "a", "label": 1, "new": {"x": 1}, "newer": null, "part": {"name": "b", "label": 2}})");
  for (const bool is_strict : {false, true}) {
    MemberRules rules(is_strict);
    const auto read = [&] {
      Members members(json, "", field_table, &rules);
      (void)members.text("name");
      members.ignore("side");
      members.ignore("few");
      Members part = members.inside(json.at("part"), "part", field_table);
      (void)part.text("name");
      part.finish();
      members.finish();
    };
    if (is_strict) {
      EXPECT_EQ(refusal(read), "new is not known; accepted: few, label, name, old, penalty, side, thinks");
      EXPECT_EQ(rules.unknown(), 0U);
      continue;
    }
    read();
    EXPECT_THAT(rules.ignored(), ElementsAre(testing::Pair("label", 2)));
    EXPECT_EQ(rules.unknown(), 2U) << "new and part";
  }
}

TEST(TextRequests, ReadEachWayToNameTexts) {
  EXPECT_THAT(read_embed(R"({"inputs": "a"})").inputs, ElementsAre(TextInput("a")));
  EXPECT_THAT(read_embed(R"({"inputs": ["a", ""]})").inputs, ElementsAre(TextInput("a"), TextInput("")));
  EXPECT_THAT(read_embed(R"({"inputs": [7, 8]})").inputs, ElementsAre(TextInput(TokenIds{7, 8})));
  EXPECT_THAT(read_embed(R"({"inputs": [[7], "a", [4294967295]]})").inputs,
              ElementsAre(TextInput(TokenIds{7}), TextInput("a"), TextInput(TokenIds{4294967295})));
}

TEST(TextRequests, ReadWhatIsSaidOfThem) {
  const EmbedTexts plain = read_embed(R"({"inputs": "a", "dimensions": null})");
  EXPECT_TRUE(plain.normalize);
  EXPECT_TRUE(plain.treatment.truncate);
  EXPECT_FALSE(plain.treatment.truncate_left);
  EXPECT_EQ(plain.dimensions, 0U);
  const EmbedTexts all = read_embed(R"({"inputs": "a", "normalize": false, "truncate": false, "dimensions": 3,
                                        "truncation_direction": "Left", "prompt_name": "query"})");
  EXPECT_FALSE(all.normalize);
  EXPECT_FALSE(all.treatment.truncate);
  EXPECT_TRUE(all.treatment.truncate_left);
  EXPECT_EQ(all.dimensions, 3U);
  EXPECT_EQ(all.treatment.prompt_name, "query");

  const OpenAiEmbeddings openai = read_openai_embeddings(
      R"({"input": ["a"], "model": "m", "encoding_format": "base64", "dimensions": 2, "user": "somebody"})");
  EXPECT_EQ(openai.model, "m");
  EXPECT_TRUE(openai.base64);
  EXPECT_EQ(openai.dimensions, 2U);
  EXPECT_FALSE(read_openai_embeddings(R"({"input": "a", "encoding_format": "float"})").base64);

  const Similarity similarity = read_similarity(
      R"({"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}, "parameters": {"truncate": false}})");
  EXPECT_EQ(similarity.source, "a");
  EXPECT_THAT(similarity.sentences, ElementsAre("b", "c"));
  EXPECT_FALSE(similarity.treatment.truncate);

  EXPECT_FALSE(read_tokenize(R"({"inputs": ["a"], "add_special_tokens": false})").special_tokens);
  EXPECT_THAT(read_decode(R"({"ids": [1, 2]})").ids, ElementsAre(TokenIds{1, 2}));
  EXPECT_THAT(read_decode(R"({"ids": [[1], [2]], "skip_special_tokens": false})").ids,
              ElementsAre(TokenIds{1}, TokenIds{2}));
}

TEST(TextRequests, TellSimilarityFromTheRest) {
  for (const char* body :
       {R"({"inputs": {"source_sentence": "a", "sentences": ["b"]}})", R"({"inputs":{"source_sentence":1}})",
        R"( { "parameters": {}, "inputs" : {"sentences": [], "source_sentence": "a"} } )"}) {
    EXPECT_TRUE(is_similarity(body)) << body;
  }
  for (const char* body : {"", "{", "[]", R"({"inputs": "source_sentence"})", R"({"inputs": ["source_sentence"]})",
                           R"({"inputs": {}})", R"({"inputs": {"sentences": {"source_sentence": "a"}}})",
                           R"({"source_sentence": "a"})", R"({"inputs": {"source_sentence": "a"})"}) {
    EXPECT_FALSE(is_similarity(body)) << body;
  }
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(TextRequests, QuoteWholeCharacters) {
  // Byte 60 is within the letter.
  const std::string name = std::string(59, 'x') + "\u00e4\u00e4";
  EXPECT_THAT(refusal([&] { (void)read_embed(R"({"inputs": "a", ")" + name + R"(": 1})"); }),
              testing::StartsWith(std::string(59, 'x') + " is not known"));
}

// Each object of a list was compared with all before it.
TEST(TextRequests, ReadAsLongAsTheBodyIs) {
  for (const char* element : {"{}", "[]", "[[]]", "null", "{\"a\": []}"}) {
    const std::string body = R"({"inputs": [)" + repeated(element + std::string(","), 1'000'000) + "1]}";
    EXPECT_NE(refusal([&] { (void)read_embed(body); }), "nothing was refused") << element;
  }
}

TEST(TextRequests, AreReadNoFurtherForAClientThatHasLeft) {
  std::stop_source left;
  left.request_stop();
  for (const std::string& body :
       {R"({"ids": [)" + repeated("1,", 100'000) + "nonsense", std::string(R"({"ids": [1]})")}) {
    try {
      (void)read_decode(body, BodyReading(Cancellation(left.get_token())));
      ADD_FAILURE() << body.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::interrupted);
    }
  }
}

TEST(TextRequests, RefuseWhatIsWrongByItsPlace) {
  const auto embed = [](std::string_view body) { (void)read_embed(body); };
  const auto openai = [](std::string_view body) { (void)read_openai_embeddings(body); };
  const auto similarity = [](std::string_view body) { (void)read_similarity(body); };
  const auto tokenize = [](std::string_view body) { (void)read_tokenize(body); };
  const auto decode = [](std::string_view body) { (void)read_decode(body); };
  std::string many = "[\"a\"";
  for (std::size_t i = 0; i < max_texts; ++i) many += ",\"a\"";

  const struct {
    std::function<void(std::string_view)> read;
    std::string body;
    const char* message;
  } cases[] = {
      {embed, "", "the body is no JSON from byte 1 on"},
      {embed, R"({"inputs": "a")", "the body is no JSON"},
      {embed, "{\"inputs\": \"\xff\"}", "the body is not UTF-8 at byte offset 12 (0xff)"},
      {embed, R"("a")", "the body is no object"},
      {embed, R"({})", "inputs is missing"},
      {embed, R"({"inputs": null})", "inputs is missing"},
      {embed, R"({"inputs": 1})", "inputs is neither a text nor a list"},
      {embed, R"({"inputs": []})", "inputs is empty"},
      {embed, R"({"inputs": [[]]})", "inputs[0] is neither a text nor a list of tokens' numbers"},
      {embed, R"({"inputs": ["a", 1]})", "inputs[1] is neither"},
      {embed, R"({"inputs": [1, "a"]})", "inputs[1] is no token's number"},
      {embed, R"({"inputs": [-1]})", "inputs[0] is no token's number"},
      {embed, R"({"inputs": [1.5]})", "inputs[0] is no token's number"},
      {embed, R"({"inputs": [4294967296]})", "inputs[0] is no token's number"},
      {embed, R"({"inputs": )" + many + "]}", "inputs has 2049 texts; accepted: at most 2048"},
      {embed, R"({"inputs": [[[[[[[[[1]]]]]]]]]})", "nested too deeply"},
      {embed, R"({"inputs": "a", "normalize": 1})", "normalize is neither true nor false"},
      {embed, R"({"inputs": "a", "dimensions": 0})", "dimensions is no whole number from 1 to 2147483647"},
      {embed, R"({"inputs": "a", "dimensions": 1e400})", "out of range"},
      {embed, R"({"inputs": "a", "truncation_direction": "up"})", "truncation_direction is 'up'; accepted: right"},
      {embed, R"({"inputs": "a", "prompt_name": 3})", "prompt_name is no text"},
      {embed, R"({"inputs": "a", "pooling": "cls"})", "pooling is not known; accepted: dimensions, inputs"},
      {openai, R"({"input": ""})", "input[0] is empty"},
      {openai, R"({"input": "a", "encoding_format": "int8"})", "encoding_format is 'int8'; accepted: float, base64"},
      {openai, R"({"input": "a", "model": 1})", "model is no text"},
      {openai, R"({"input": "a", "stream": true})", "stream is not known"},
      {similarity, R"({"inputs": "a"})", "inputs is no object"},
      {similarity, R"({"inputs": {"sentences": ["a"]}})", "inputs.source_sentence is missing"},
      {similarity, R"({"inputs": {"source_sentence": "a", "sentences": []}})", "inputs.sentences is empty"},
      {similarity, R"({"inputs": {"source_sentence": "a", "sentences": "b"}})", "inputs.sentences is no list"},
      {similarity, R"({"inputs": {"source_sentence": "a", "sentences": [1]}})",
       "inputs.sentences is a list of numbers"},
      {similarity, R"({"inputs": {"source_sentence": "a", "sentences": ["b"], "x": 1}})", "inputs.x is not known"},
      {similarity, R"({"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": {"x": 1}})",
       "parameters.x is not known"},
      {tokenize, R"({"inputs": [1]})", "inputs is a list of numbers; accepted: texts"},
      // Reading ends at the first such value: what follows would be no JSON.
      {embed, R"({"inputs": [)" + repeated("{},", 65) + "nonsense", "the body has more than 64 objects in lists"},
      {embed, R"({"inputs": [[)" + repeated("{},", 65) + "nonsense", "the body has more than 64 objects in lists"},
      {embed, R"({"inputs": [{}]})", "inputs"},
      {embed, R"({"inputs": [)" + repeated("[1],", 2200) + "nonsense", "the body has more than 2112 lists"},
      {embed, R"({"inputs": [)" + repeated("\"a\",", 4200) + "nonsense", "the body has more than 4160 texts"},
      {embed, R"({"inputs": [)" + repeated("1,", 2'000'000) + "nonsense", "the body has more than 2000000 values"},
      {embed, "{" + repeated("\"a\":1,", 65) + "nonsense", "the body has more than 64 members"},
      {embed, R"({"inputs": [)" + repeated("1,", 262'144) + "1]}",
       "inputs has 262145 tokens; accepted: at most 262144"},
      {decode, R"({"ids": "a"})", "ids is no list"},
      {decode, R"({"ids": ["a"]})", "ids has a text"},
  };

  for (const auto& one : cases) {
    EXPECT_THAT(refusal([&] { one.read(one.body); }), HasSubstr(one.message)) << one.body.substr(0, 100);
  }
}

TEST(TextRequests, WriteVectorsThatReadBackEqual) {
  std::string list, packed;
  append_vector(list, {0.1F, -2, 1e-30F}, false);
  EXPECT_EQ(list, "[0.1,-2,1e-30]");
  append_vector(packed, {1, -2}, true);
  EXPECT_EQ(packed, R"("AACAPwAAAMA=")");
}

}  // namespace
}  // namespace gpux::server
