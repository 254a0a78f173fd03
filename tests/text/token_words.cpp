#include "text/token_words.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpux::test {
namespace {

using nlohmann::json;

const std::string metaspace = "\u2581";

std::string utf8(std::uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3fU))};
}

// GPT-2's alphabet: each byte as a character that can be printed.
const std::array<std::string, 256>& alphabet() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> made;
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      made.at(byte) = utf8(is_printable ? byte : next++);
    }
    return made;
  }();
  return characters;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  while (!text.empty()) {
    const bool is_next = text.starts_with(from);
    result += is_next ? to : text.substr(0, 1);
    text.remove_prefix(is_next ? from.size() : 1);
  }
  return result;
}

std::string byte_level(std::string_view word) {
  std::string text;
  for (const char byte : word) text += alphabet().at(static_cast<unsigned char>(byte));
  return text;
}

json decoder_of(std::string_view family) {
  const json replace{{"type", "Replace"}, {"pattern", {{"String", metaspace}}}, {"content", " "}};
  const json fallback{{"type", "ByteFallback"}}, fuse{{"type", "Fuse"}};
  const json strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  if (family == "stripping") return {{"type", "Sequence"}, {"decoders", {replace, fallback, fuse, strip}}};
  if (family == "fallback") return {{"type", "Sequence"}, {"decoders", {replace, fallback, fuse}}};
  if (family == "metaspace") return {{"type", "Metaspace"}, {"replacement", metaspace}, {"prepend_scheme", "always"}};
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

}  // namespace

std::string made_tokenizer(std::string_view family, const std::vector<std::string>& words) {
  json vocabulary = json::object(), added = json::array();
  const auto add = [&](const std::string& token) { vocabulary.emplace(token, vocabulary.size()); };
  for (const char* special : {"<unk>", "<s>", "</s>"}) {
    added.push_back({{"id", vocabulary.size()},
                     {"content", special},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
    add(special);
  }
  const bool is_byte_level = family == "byte-level";
  const auto spelt = [&](std::string_view word) {
    return is_byte_level ? byte_level(word) : replaced(word, " ", metaspace);
  };
  if (is_byte_level) {
    for (const std::string& character : alphabet()) add(character);
  } else if (family != "metaspace") {
    for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte));
  }
  for (char c = ' '; c <= '~'; ++c) add(spelt({&c, 1}));
  for (const std::string& word : words) add(spelt(word));
  const json model{{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", "<unk>"},
                   {"fuse_unk", false},
                   {"byte_fallback", family == "stripping" || family == "fallback"},
                   {"vocab", vocabulary},
                   {"merges", json::array()},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr}};
  return json{{"version", "1.0"},          {"truncation", nullptr},         {"padding", nullptr},
              {"added_tokens", added},     {"normalizer", nullptr},         {"pre_tokenizer", nullptr},
              {"post_processor", nullptr}, {"decoder", decoder_of(family)}, {"model", model}}
      .dump();
}

std::vector<std::string> words_of(const text::Tokenizer& tokenizer) {
  std::map<std::string, char> bytes;
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[alphabet().at(byte)] = static_cast<char>(byte);
  const bool is_byte_level = tokenizer.id(alphabet()[' ']).has_value();
  std::vector<std::string> words(tokenizer.vocabulary_size());
  for (std::uint32_t id = 0; id < words.size(); ++id) {
    const std::string token = tokenizer.token(id).value_or("");
    if (tokenizer.decode(std::vector<std::uint32_t>{id}).empty() && token != metaspace) continue;  // special
    std::string& word = words[id];
    if (!is_byte_level) {
      const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
      word = is_byte ? std::string(1, static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16)))
                     : replaced(token, metaspace, " ");
      continue;
    }
    for (std::size_t at = 0; at < token.size();) {
      const std::size_t size = static_cast<unsigned char>(token[at]) < 0x80 ? 1 : 2;
      word += bytes[token.substr(at, size)];
      at += size;
    }
  }
  return words;
}

std::vector<std::uint32_t> random_tokens(std::string_view text, const std::vector<std::string>& words,
                                         std::mt19937& random) {
  // What follows each position: tokens that lead to the end.
  std::vector<std::vector<std::uint32_t>> next(text.size() + 1);
  for (std::size_t at = text.size(); at-- > 0;) {
    for (std::uint32_t id = 0; id < words.size(); ++id) {
      const std::string& word = words[id];
      if (word.empty() || !text.substr(at).starts_with(word)) continue;
      const std::size_t after = at + word.size();
      if (after == text.size() || !next[after].empty()) next[at].push_back(id);
    }
  }
  std::vector<std::uint32_t> tokens;
  for (std::size_t at = 0; at < text.size();) {
    if (next[at].empty()) return {};
    tokens.push_back(next[at][random() % next[at].size()]);
    at += words[tokens.back()].size();
  }
  return tokens;
}

}  // namespace gpux::test
