#include "checkpoint/pair_score.h"

#include <fstream>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

// "PREFIX|SUFFIX" for the query Q and the document D; "refused".
std::string rendered(const std::string& jinja, const std::string& instruction = "") {
  const std::optional<PairTemplate> parsed = parse_pair_template(jinja, instruction);
  return parsed ? parsed->prefix("Q", "D") + '|' + parsed->suffix : "refused";
}

constexpr const char* query =
    R"({{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }})";
constexpr const char* document = R"({{ (messages | selectattr('role', 'equalto', 'document') | first).content }})";
constexpr const char* system =
    R"re({{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("judge\n") }})re";

TEST(PairTemplate, JoinsQueryAndDocument) {
  const std::string q = query, d = document, s = system;
  EXPECT_EQ(rendered("<q>" + q + "\n<d>" + d + "<end>\nanswer:\n\n"), "<q>Q\n<d>D|<end>\nanswer:\n");
  EXPECT_EQ(rendered(d + q), "DQ|");
  EXPECT_EQ(rendered(s + q + d), "judge\nQD|");
  EXPECT_EQ(rendered(s + q + d, "instructed"), "instructedQD|");
  EXPECT_EQ(rendered("{ x" + q + "} " + d), "{ xQ} D|");
  EXPECT_EQ(rendered(R"({{ (messages | selectattr("role", "==", "query") | first)["content"][0].text }})" + d), "QD|");
}

TEST(PairTemplate, FollowsWhitespaceAndVariables) {
  const std::string q = query, d = document;
  EXPECT_EQ(rendered("  {# a comment #}\n  {% set x = \"in\\\"struct\" %}\n{{ x }}" + q + d), "in\"structQD|");
  EXPECT_EQ(rendered("a \n{%- set x = 'b' -%}\n {{ x }}" + q + d), "abQD|");
  EXPECT_EQ(rendered("a\n{{- 'b' -}}\n" + q + d), "abQD|");
  EXPECT_EQ(rendered(q + "\n" + d + "\n"), "Q\nD|");
}

TEST(PairTemplate, RefusesWhatItDoesNotCompute) {
  const std::string q = query, d = document;
  for (const std::string& jinja :
       {std::string(), q, d, "{% if x %}" + q + d + "{% endif %}", "{{ x }}" + q + d,
        q + d + "{{ messages[0].content }}",
        "{{ messages | selectattr(\"role\", \"eq\", \"assistant\") | map(attribute=\"content\") | first }}" + q + d,
        "{{ messages | selectattr(\"role\", \"eq\", \"system\") | map(attribute=\"content\") | first }}" + q + d,
        q + d + "{{ 'open", "{% set x = messages %}" + q + d, "{{ 'a' + 'b' }}" + q + d,
        q + d + "{{ '" + std::string(70000, 'x') + "' }}", q + d + "{{ " + std::string(5000, ' ') + "'x' }}"}) {
    EXPECT_EQ(rendered(jinja), "refused") << jinja.substr(0, 100);
  }
}

class PairScoreFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
  }

  std::string refusal() {
    try {
      (void)read_pair_score(folder_.path());
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(PairScoreFolder, IsReadWithItsTemplate) {
  EXPECT_FALSE(read_pair_score(folder_.path()));
  write("modules.json",
        R"([{"path": "", "type": "a.Transformer"}, {"path": "1_LogitScore", "type": "a.b.LogitScore"}])");
  EXPECT_THAT(refusal(), testing::HasSubstr("modules.json names its LogitScore"));
  write("1_LogitScore/config.json", R"({"true_token_id": -1})");
  EXPECT_THAT(refusal(), testing::HasSubstr("true_token_id is -1; accepted: the id of a token"));
  write("1_LogitScore/config.json", R"({"true_token_id": 7, "false_token_id": null})");
  const auto plain = read_pair_score(folder_.path());
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->true_token, 7);
  EXPECT_FALSE(plain->false_token);
  EXPECT_FALSE(plain->pair_template);
  write("1_LogitScore/config.json", R"({"true_token_id": 7, "false_token_id": 8})");
  write("chat_template.jinja", "{% for message in messages %}{{ message.content }}{% endfor %}");
  EXPECT_THAT(refusal(), testing::HasSubstr("its chat template is not supported"));
  write("chat_template.jinja", std::string(system) + query + document + "!");
  write("config_sentence_transformers.json", R"({"prompts": {"web": "W"}, "default_prompt_name": "web"})");
  const auto score = read_pair_score(folder_.path());
  ASSERT_TRUE(score);
  ASSERT_TRUE(score->pair_template);
  EXPECT_EQ(score->false_token, 8);
  EXPECT_EQ(score->pair_template->prefix("a", "b"), "Wab");
  EXPECT_EQ(score->pair_template->suffix, "!");
}

}  // namespace
}  // namespace gpux::checkpoint
