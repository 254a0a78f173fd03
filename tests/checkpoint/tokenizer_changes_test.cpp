#include "checkpoint/tokenizer_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;
using Json = nlohmann::json;

std::string changes_of(const Files& files) {
  const test::TemporaryFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  return tokenizer_changes(folder.path());
}

TEST(TokenizerChanges, AreThoseOfTheFilesBesideIt) {
  const struct {
    Files files;
    const char* expected;
  } cases[] = {
      {{}, ""},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": true})"}}, ""},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})"}},
       R"({"bert_normalizer": {"lowercase": true, "strip_accents": null, "handle_chinese_chars": true}})"},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizerFast", "do_lower_case": false,
                                      "strip_accents": true, "tokenize_chinese_chars": false})"}},
       R"({"bert_normalizer": {"lowercase": false, "strip_accents": true, "handle_chinese_chars": false}})"},
      {{{"config.json", R"({"tokenizer_class": "BertTokenizerFast"})"},
        {"tokenizer_config.json", R"({"do_lower_case": false})"}},
       R"({"bert_normalizer": {"lowercase": false, "strip_accents": null, "handle_chinese_chars": true}})"},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "AlbertTokenizer", "do_lower_case": true})"}},
       R"({"required_lowercase": true})"},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "AlbertTokenizer"})"}}, ""},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": true})"}},
       R"({"add_prefix_space": true})"},
      {{{"tokenizer_config.json", R"({"split_special_tokens": true})"}}, R"({"split_special_tokens": true})"},
      {{{"sentence_roberta_config.json", R"({"do_lower_case": true})"}}, R"({"lowercase": true})"},
      {{{"tokenizer_config.json", R"({"pad_token": "[PAD]", "cls_token": {"content": "[CLS]"}, "eos_token": null,
                                      "extra_special_tokens": ["<a>"]})"}},
       R"({"special_tokens": ["[PAD]", "[CLS]", "<a>"]})"},
      // By their ids, which are numbers.
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": {
           "10": {"content": "ten", "special": true},
           "9": {"content": "nine", "single_word": true, "lstrip": true, "rstrip": true, "normalized": false}}})"},
        {"special_tokens_map.json", R"({"pad_token": "[PAD]"})"},
        {"added_tokens.json", R"({"x": 3})"}},
       R"({"added_tokens": [
           {"content": "nine", "single_word": true, "lstrip": true, "rstrip": true, "normalized": false, "special": false},
           {"content": "ten", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true}]})"},
      {{{"special_tokens_map.json", R"({"pad_token": "x"})"}, {"added_tokens.json", R"({"x": 4, "y": 3})"}},
       R"({"special_tokens": ["x"], "added_tokens": [
           {"content": "y", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false},
           {"content": "x", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true}]})"},
  };

  for (const auto& [files, expected] : cases) {
    const std::string changes = changes_of(files);
    const std::string name = files.empty() ? "no files" : files.front().second;
    EXPECT_EQ(changes.empty() ? Json() : Json::parse(changes), *expected == '\0' ? Json() : Json::parse(expected))
        << name;
  }
}

TEST(TokenizerChanges, AreRefusedWithTheirPlace) {
  const struct {
    Files files;
    const char* words;
  } cases[] = {
      {{{"tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer", "do_lower_case": 1})"}},
       "do_lower_case is 1"},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": {"a": {"content": "x"}}})"}},
       "names the id 'a'; accepted: whole numbers"},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": {"7": "x"}})"}}, "added_tokens_decoder.7 is \"x\""},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "x", "special": 1}}})"}},
       "added_tokens_decoder.7 is"},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": []})"}}, "added_tokens_decoder is []"},
      {{{"added_tokens.json", R"({"x": -1})"}}, "x is -1; accepted: the id of a token"},
      {{{"tokenizer_config.json", R"({"pad_token": 5})"}},
       "pad_token is 5; accepted: a token, or an object with its content"},
      {{{"tokenizer_config.json", R"({"additional_special_tokens": "<a>"})"}},
       "additional_special_tokens is \"<a>\"; accepted: a list of tokens"},
      {{{"tokenizer_config.json", R"({"extra_special_tokens": {"image": 3}})"}}, "extra_special_tokens is 3"},
      {{{"special_tokens_map.json", R"({"cls_token": {"special": true}})"}}, "cls_token is {\"special\":true}"},
  };

  for (const auto& [files, words] : cases) {
    try {
      (void)changes_of(files);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      EXPECT_THAT(error.message(), testing::HasSubstr("/" + files.front().first + ": "));
      EXPECT_THAT(error.message(), testing::HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace gpux::checkpoint
