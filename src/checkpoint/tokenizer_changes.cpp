#include "checkpoint/tokenizer_changes.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "checkpoint/transformer_settings.h"

namespace gpux::checkpoint {
namespace {

using Json = JsonSettings::Json;

// Classes that make a BertNormalizer of their settings, whatever tokenizer.json has.
constexpr std::array<std::string_view, 16> bert_classes{"BertTokenizer",
                                                        "ConvBertTokenizer",
                                                        "DPRContextEncoderTokenizer",
                                                        "DPRQuestionEncoderTokenizer",
                                                        "DPRReaderTokenizer",
                                                        "DistilBertTokenizer",
                                                        "ElectraTokenizer",
                                                        "FunnelTokenizer",
                                                        "LayoutLMTokenizer",
                                                        "LxmertTokenizer",
                                                        "MPNetTokenizer",
                                                        "MobileBertTokenizer",
                                                        "RealmTokenizer",
                                                        "RetriBertTokenizer",
                                                        "SplinterTokenizer",
                                                        "SqueezeBertTokenizer"};

// Classes that put a Lowercase into the normalizer where do_lower_case says so.
constexpr std::array<std::string_view, 3> lowercase_classes{"AlbertTokenizer", "DebertaV2Tokenizer", "XLNetTokenizer"};

// Classes that make the ByteLevel of their add_prefix_space.
constexpr std::array<std::string_view, 9> prefix_space_classes{
    "BartTokenizer",    "BlenderbotTokenizer", "CodeGenTokenizer", "DebertaTokenizer", "GPT2Tokenizer",
    "GPTNeoXTokenizer", "LEDTokenizer",        "MvpTokenizer",     "RobertaTokenizer"};

constexpr std::array special_token_keys{"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

constexpr std::array extra_token_keys{"extra_special_tokens", "additional_special_tokens"};

template <std::size_t count>
bool is_one_of(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// "BertTokenizerFast" is BertTokenizer with this library.
std::string tokenizer_class(const JsonSettings& tokenizer, const JsonSettings& config) {
  std::string name = tokenizer.text("tokenizer_class");
  if (name.empty()) name = config.text("tokenizer_class");
  constexpr std::string_view fast = "Fast";
  if (name.ends_with(fast)) name.resize(name.size() - fast.size());
  return name;
}

// A text, or an object with it.
void add_token(const JsonSettings& settings, const char* key, const Json& token, std::vector<std::string>& names) {
  if (token.is_null()) return;
  const Json* content = &token;
  if (token.is_object() && token.contains("content")) content = &token["content"];
  if (!content->is_string()) settings.refuse_value(key, token, "a token, or an object with its content");
  if (!content->get<std::string>().empty()) names.push_back(content->get<std::string>());
}

std::vector<std::string> special_tokens_in(const JsonSettings& settings) {
  std::vector<std::string> names;
  for (const char* key : special_token_keys) {
    if (const Json* token = settings.find(key)) add_token(settings, key, *token, names);
  }
  for (const char* key : extra_token_keys) {
    const Json* tokens = settings.find(key);
    if (tokens == nullptr) continue;
    if (!tokens->is_structured()) settings.refuse_value(key, *tokens, "a list of tokens, or an object of them");
    for (const Json& token : *tokens) add_token(settings, key, token, names);
  }
  return names;
}

Json added_token(const JsonSettings& settings, const std::string& place, const Json& given) {
  const auto refuse = [&]() { settings.refuse_value(place, given, "a token with its content and flags"); };
  if (!given.is_object() || !given.contains("content") || !given["content"].is_string()) refuse();
  const auto flag = [&](const char* key, bool otherwise) {
    const auto found = given.find(key);
    if (found == given.end()) return otherwise;
    if (!found->is_boolean()) refuse();
    return found->get<bool>();
  };
  const bool is_special = flag("special", false);
  return {{"content", given["content"]},
          {"single_word", flag("single_word", false)},
          {"lstrip", flag("lstrip", false)},
          {"rstrip", flag("rstrip", false)},
          {"normalized", flag("normalized", !is_special)},
          {"special", is_special}};
}

std::uint32_t token_id(const JsonSettings& settings, const std::string& place, const Json& id) {
  constexpr std::int64_t limit = std::int64_t{1} << 30;
  if (!id.is_number_integer() || id < 0 || id > limit) settings.refuse_value(place, id, "the id of a token");
  return id.get<std::uint32_t>();
}

// By id, as the library adds them.
using AddedTokens = std::map<std::uint32_t, Json>;

AddedTokens added_tokens_decoder(const JsonSettings& tokenizer) {
  AddedTokens tokens;
  const JsonSettings decoder = tokenizer.object("added_tokens_decoder");
  for (const auto& [key, given] : decoder.json().items()) {
    const bool is_id = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id) decoder.refuse(fmt::format("added_tokens_decoder names the id '{}'; accepted: whole numbers", key));
    tokens[static_cast<std::uint32_t>(std::stoul(key))] = added_token(decoder, key, given);
  }
  return tokens;
}

AddedTokens added_tokens_json(const JsonSettings& added, const std::vector<std::string>& special_tokens) {
  AddedTokens tokens;
  for (const auto& [content, id] : added.json().items()) {
    const bool is_special = std::ranges::find(special_tokens, content) != special_tokens.end();
    tokens[token_id(added, content, id)] = added_token(added, content, {{"content", content}, {"special", is_special}});
  }
  return tokens;
}

void apply_class(const JsonSettings& tokenizer, const std::string& name, Json& changes) {
  const bool says_case = tokenizer.find("do_lower_case") != nullptr;
  if (is_one_of(bert_classes, name)) {
    Json& bert = changes["bert_normalizer"];
    bert["lowercase"] = tokenizer.flag("do_lower_case", true);
    bert["strip_accents"] =
        tokenizer.find("strip_accents") == nullptr ? Json() : Json(tokenizer.flag("strip_accents", false));
    bert["handle_chinese_chars"] = tokenizer.flag("tokenize_chinese_chars", true);
  } else if (is_one_of(lowercase_classes, name) && says_case) {
    changes["required_lowercase"] = tokenizer.flag("do_lower_case", false);
  }
  if (is_one_of(prefix_space_classes, name) && tokenizer.find("add_prefix_space") != nullptr) {
    changes["add_prefix_space"] = tokenizer.flag("add_prefix_space", false);
  }
}

}  // namespace

std::string tokenizer_changes(const std::filesystem::path& folder) {
  const JsonSettings tokenizer(folder / "tokenizer_config.json");
  Json changes = Json::object();
  apply_class(tokenizer, tokenizer_class(tokenizer, JsonSettings(folder / "config.json")), changes);
  if (tokenizer.flag("split_special_tokens", false)) changes["split_special_tokens"] = true;
  std::vector<std::string> special_tokens = special_tokens_in(tokenizer);
  AddedTokens added = added_tokens_decoder(tokenizer);
  if (tokenizer.find("added_tokens_decoder") == nullptr) {
    for (std::string& token : special_tokens_in(JsonSettings(folder / "special_tokens_map.json"))) {
      special_tokens.push_back(std::move(token));
    }
    added = added_tokens_json(JsonSettings(folder / "added_tokens.json"), special_tokens);
  }
  for (const auto& [id, token] : added) changes["added_tokens"].push_back(token);
  if (!special_tokens.empty()) changes["special_tokens"] = special_tokens;
  if (transformer_settings(folder).flag("do_lower_case", false)) changes["lowercase"] = true;
  return changes.empty() ? std::string() : changes.dump();
}

}  // namespace gpux::checkpoint
