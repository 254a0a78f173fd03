#include "importer/gguf/tokenizer.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/utf8.h"
#include "gpux/error.h"
#include "importer/gguf/pre_tokenizer.h"
#include "onnx/text.h"

namespace gpux::importer::gguf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view space_mark = "\u2581";

/// Two tokens that become one, in the order in which that is done.
using Merges = std::vector<std::pair<std::string_view, std::string_view>>;

std::string text_of(const Json& value) {
  return value.dump();
}

std::string json_text(std::string_view text) {
  return Json(text).dump();
}

bool is_added(TokenKind kind) noexcept {
  return kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::user_defined;
}

// Phi-3's tokens take the blanks behind them, which the file does not say: llama.cpp knows the model by its name.
bool takes_blanks(const Metadata& metadata, std::string_view token) {
  std::string name(metadata.text("general.name").value_or(""));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return false;
  return token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
}

std::string added_tokens_of(const Metadata& metadata, const Vocabulary& vocabulary) {
  std::string list;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_added(vocabulary.kinds[id])) continue;
    const std::string& token = vocabulary.tokens[id];
    const Json entry{{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", takes_blanks(metadata, token)},
                     {"normalized", false},
                     {"special", vocabulary.kinds[id] != TokenKind::user_defined}};
    if (!list.empty()) list += ",\n";
    list += text_of(entry);
  }
  return list;
}

// Not by Json: an ordered object of this size would take minutes.
std::string vocabulary_text(const Vocabulary& vocabulary) {
  std::string text;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (id != 0) text += ",\n";
    text += fmt::format("{}:{}", json_text(vocabulary.tokens[id]), id);
  }
  return text;
}

std::string merges_text(const Merges& merges) {
  std::string text;
  for (const auto& [left, right] : merges) {
    if (!text.empty()) text += ",\n";
    text += fmt::format("[{},{}]", json_text(left), json_text(right));
  }
  return text;
}

Json template_of(const Vocabulary& vocabulary) {
  if (!vocabulary.adds_bos && !vocabulary.adds_eos) return {};
  Json special = Json::object(), single = Json::array(), pair = Json::array();
  const auto token = [&](std::uint32_t id, int type, Json& list) {
    const std::string& text = vocabulary.tokens[id];
    special[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
    list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
  };
  const auto sequence = [&](const char* name, int type, Json& list) {
    if (vocabulary.adds_bos) token(vocabulary.bos.value_or(0), type, list);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (vocabulary.adds_eos) token(vocabulary.eos.value_or(0), type, list);
  };
  sequence("A", 0, single);
  sequence("A", 0, pair);
  sequence("B", 1, pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

/// What tokenizer.json has besides the tokens.
struct Parts {
  Json normalizer, pre_tokenizer, decoder;
  Json unknown;  ///< unk_token
  bool falls_back_to_bytes = false, ignores_merges = false;
  Merges merges;
};

std::string written(const Metadata& metadata, const Vocabulary& vocabulary, const Parts& parts) {
  return fmt::format(
      "{{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[\n{}],\n\"normalizer\":{},\n"
      "\"pre_tokenizer\":{},\n\"post_processor\":{},\n\"decoder\":{},\n"
      "\"model\":{{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":{},\"continuing_subword_prefix\":null,"
      "\"end_of_word_suffix\":null,\"fuse_unk\":{},\"byte_fallback\":{},\"ignore_merges\":{},\n"
      "\"vocab\":{{\n{}}},\n\"merges\":[\n{}]}}}}\n",
      added_tokens_of(metadata, vocabulary), text_of(parts.normalizer), text_of(parts.pre_tokenizer),
      text_of(template_of(vocabulary)), text_of(parts.decoder), text_of(parts.unknown), parts.falls_back_to_bytes,
      parts.falls_back_to_bytes, parts.ignores_merges, vocabulary_text(vocabulary), merges_text(parts.merges));
}

// "Ġ t", split at the first blank that is not the first character.
Merges stored_merges(const Metadata& metadata, const Vocabulary& vocabulary) {
  constexpr std::string_view key = "tokenizer.ggml.merges";
  const Texts* texts = metadata.texts(key);
  if (texts == nullptr) throw Error(ErrorCode::invalid_model, fmt::format("the file has no {}", key));
  Merges merges;
  merges.reserve(texts->size());
  std::string joined;
  for (const std::string_view text : *texts) {
    const std::size_t blank = text.find(' ', 1);
    const std::string_view left = text.substr(0, blank);
    const std::string_view right = blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1);
    joined.assign(left).append(right);
    if (right.empty() || !vocabulary.ids.contains(left) || !vocabulary.ids.contains(right) ||
        !vocabulary.ids.contains(joined)) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{} has {}, which does not make a token of two", key, onnx::quote(text)));
    }
    merges.emplace_back(left, right);
  }
  return merges;
}

Json split_by(std::string_view pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Parts byte_level(const Metadata& metadata, const Vocabulary& vocabulary) {
  constexpr std::string_view key = "tokenizer.ggml.pre";
  const std::string_view name = metadata.text(key).value_or("");
  const PreTokenizer* split = find_pre_tokenizer(name);
  if (split == nullptr) {
    std::string names;
    for (const PreTokenizer& one : pre_tokenizers()) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
    metadata.refuse(key, names);
  }
  Json steps = Json::array();
  for (const std::string_view pattern : split->patterns) steps.push_back(split_by(pattern));
  const auto bytes = [](bool splits) {
    return Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", splits}};
  };
  steps.push_back(bytes(split->has_gpt2_split));
  if (vocabulary.adds_space) metadata.refuse("tokenizer.ggml.add_space_prefix", "false");
  return {.normalizer = {},
          .pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}},
          .decoder = bytes(true),
          .unknown = {},
          .ignores_merges = split->ignores_merges,
          .merges = stored_merges(metadata, vocabulary)};
}

// The pair that makes the token with the highest score is merged first: all ways to make a token of two, by its score.
// Of a token's several ways the one with the longest first part comes first: runs of a character, whose tokens have the
// same score, then grow from the left, as in llama.cpp.
Merges scored_merges(const Vocabulary& vocabulary) {
  struct Way {
    std::string_view left, right;
    std::uint32_t token;
    std::size_t left_characters;
  };

  std::vector<Way> ways;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view token = vocabulary.tokens[id];
    std::size_t characters = 0;
    for (std::size_t end = utf8_character(token); end < token.size(); end += utf8_character(token.substr(end))) {
      ++characters;
      const std::string_view left = token.substr(0, end), right = token.substr(end);
      if (!vocabulary.ids.contains(left) || !vocabulary.ids.contains(right)) continue;
      ways.push_back({left, right, static_cast<std::uint32_t>(id), characters});
    }
  }
  std::ranges::stable_sort(ways, [&](const Way& a, const Way& b) {
    const auto key = [&](const Way& way) { return std::tuple(vocabulary.scores[way.token], way.left_characters); };
    return key(a) > key(b);
  });
  Merges merges;
  merges.reserve(ways.size());
  for (const Way& way : ways) merges.emplace_back(way.left, way.right);
  return merges;
}

Parts sentencepiece(const Metadata& metadata, const Vocabulary& vocabulary) {
  if (vocabulary.scores.empty()) {
    metadata.refuse("tokenizer.ggml.scores", "a score for each token, by which they are merged");
  }
  Json normalizers = Json::array(), decoders = Json::array();
  if (vocabulary.adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", space_mark}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space_mark}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", space_mark}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (vocabulary.adds_space) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {.normalizer = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}},
          .pre_tokenizer = {},
          .decoder = {{"type", "Sequence"}, {"decoders", std::move(decoders)}},
          .unknown = vocabulary.unknown ? Json(vocabulary.tokens[*vocabulary.unknown]) : Json(),
          .falls_back_to_bytes = true,
          .merges = scored_merges(vocabulary)};
}

}  // namespace

std::string tokenizer_json(const Metadata& metadata, const Vocabulary& vocabulary) {
  const bool is_sentencepiece = vocabulary.model == "llama";
  return written(metadata, vocabulary,
                 is_sentencepiece ? sentencepiece(metadata, vocabulary) : byte_level(metadata, vocabulary));
}

Json tokenizer_config(const Metadata& metadata, const Vocabulary& vocabulary) {
  Json config{{"add_bos_token", vocabulary.adds_bos}, {"add_eos_token", vocabulary.adds_eos}};
  const auto add = [&](const char* name, std::optional<std::uint32_t> id) {
    if (id) config[name] = vocabulary.tokens[*id];
  };
  add("bos_token", vocabulary.bos);
  add("eos_token", vocabulary.eos);
  add("unk_token", vocabulary.unknown);
  add("pad_token", vocabulary.padding);
  constexpr std::string_view prefix = "tokenizer.chat_template.";
  Json templates = Json::array();
  for (auto i = metadata.all().lower_bound(prefix); i != metadata.all().end() && i->first.starts_with(prefix); ++i) {
    const auto* text = std::get_if<std::string_view>(&i->second);
    if (text != nullptr && is_utf8(*text)) {
      templates.push_back({{"name", i->first.substr(prefix.size())}, {"template", *text}});
    }
  }
  if (!templates.empty()) {
    if (const auto text = metadata.text("tokenizer.chat_template")) {
      templates.insert(templates.begin(), Json{{"name", "default"}, {"template", *text}});
    }
    config["chat_template"] = std::move(templates);
  }
  return config;
}

}  // namespace gpux::importer::gguf
