#include "generation/end_tokens.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "text/token_words.h"

namespace gpux::generation {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// A vocabulary with these special tokens from id 3 on, and this one that is not special, as some models have theirs.
text::Tokenizer tokenizer_with(const std::vector<std::string>& special, const std::string& plain = "") {
  json made = json::parse(test::made_tokenizer("byte-level", {}));
  const auto add = [&](const std::string& token, bool is_special) {
    const std::size_t id = made["model"]["vocab"].size();
    made["model"]["vocab"][token] = id;
    made["added_tokens"].push_back({{"id", id},
                                    {"content", token},
                                    {"special", is_special},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false}});
  };
  for (const std::string& token : special) add(token, true);
  if (!plain.empty()) add(plain, false);
  return text::Tokenizer::from_json(made.dump());
}

constexpr const char* chatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(EndTokens, AreThoseOfTheTokenizerAndOfTheTemplate) {
  const text::Tokenizer tokenizer = tokenizer_with({"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  const std::uint32_t end = *tokenizer.id("<|endoftext|>"), end_of_turn = *tokenizer.id("<|im_end|>");
  test::TemporaryFolder folder;
  EXPECT_THAT(end_tokens_beside(folder.path(), tokenizer), IsEmpty());
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|endoftext|>"}, "bos_token": null})");
  EXPECT_THAT(end_tokens_beside(folder.path(), tokenizer), ElementsAre(end));
  folder.write("chat_template.jinja", chatml);
  EXPECT_THAT(end_tokens_beside(folder.path(), tokenizer), ElementsAre(end, end_of_turn));
  folder.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  EXPECT_THAT(end_tokens_beside(folder.path(), tokenizer), ElementsAre(end_of_turn));
  // Not of this vocabulary.
  folder.write("tokenizer_config.json", R"({"eos_token": "<|other|>"})");
  EXPECT_THAT(end_tokens_beside(folder.path(), tokenizer), ElementsAre(end_of_turn));
}

TEST(EndTokens, AreReadOffWhatTheTemplateWritesBehindAnAnswer) {
  const text::Tokenizer tokenizer = tokenizer_with({"<|eot_id|>", "<|user|>"}, "<end_of_turn>");
  const std::uint32_t special = *tokenizer.id("<|eot_id|>"), plain = *tokenizer.id("<end_of_turn>");

  struct Row {
    std::string source;
    std::vector<std::uint32_t> tokens;
  };

  for (const Row& row : std::vector<Row>{
           {"{% for m in messages %}{{ m.content }}<|eot_id|>{% endfor %}", {special}},
           {"{% for m in messages %}{{ m.content | trim }}\n <end_of_turn>\n{% endfor %}", {plain}},
           {"{% for m in messages %}<|user|>{{ m.content }}{% endfor %}", {}},
           {"{% for m in messages %}{{ m.content }}\n{% endfor %}", {}},
           {"{% for m in messages %}{{ m.content }} end<|eot_id|>{% endfor %}", {}},
           {"{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<|eot_id|>{% endif %}{% endfor %}", {}},
           {"{{ raise_exception('no') }}", {}},
           {"{% if %}", {}},
       }) {
    test::TemporaryFolder folder;
    folder.write("chat_template.jinja", row.source);
    EXPECT_EQ(end_tokens_beside(folder.path(), tokenizer), row.tokens) << row.source;
  }
}

}  // namespace
}  // namespace gpux::generation
