#include "importer/gguf/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/utf8.h"
#include "gpux/error.h"
#include "importer/gguf/pre_tokenizer.h"
#include "onnx/text.h"

namespace gpux::importer::gguf {
namespace {

Error broken(const std::string& why) {
  return {ErrorCode::invalid_model, why};
}

// llama.cpp knows some tokens by their texts, and takes them as control tokens whatever the file says.
constexpr std::array<std::string_view, 22> ends{"<|eot_id|>",
                                                "<|im_end|>",
                                                "<|end|>",
                                                "<|return|>",
                                                "<|call|>",
                                                "<|flush|>",
                                                "<|calls|>",
                                                "<end_of_turn>",
                                                "<|endoftext|>",
                                                "</s>",
                                                "<|eom_id|>",
                                                "<EOT>",
                                                "_<EOT>",
                                                "[EOT]",
                                                "[EOS]",
                                                "<|end_of_text|>",
                                                "<end_of_utterance>",
                                                "<eos>",
                                                "<turn|>",
                                                "<|tool_response>",
                                                "<｜end▁of▁sentence｜>",
                                                "[e~["};

std::vector<TokenKind> kinds_in(const Metadata& metadata, std::size_t count) {
  constexpr std::string_view key = "tokenizer.ggml.token_type";
  const Integers* types = metadata.integers(key);
  if (types == nullptr) return std::vector<TokenKind>(count, TokenKind::normal);
  if (types->size() != count) metadata.refuse(key, fmt::format("one for each of {} tokens", count));
  std::vector<TokenKind> kinds;
  kinds.reserve(count);
  for (const std::int64_t type : *types) {
    if (type < 0 || type > 6) metadata.refuse(key, fmt::format("types from 0 to 6, and not {}", type));
    kinds.push_back(type == 0 ? TokenKind::normal : static_cast<TokenKind>(type));
  }
  return kinds;
}

std::vector<float> scores_in(const Metadata& metadata, std::size_t count) {
  constexpr std::string_view key = "tokenizer.ggml.scores";
  const std::optional<Numbers> numbers = metadata.numbers(key);
  if (!numbers) return {};
  if (numbers->size() != count) metadata.refuse(key, fmt::format("one for each of {} tokens", count));
  std::vector<float> scores;
  scores.reserve(count);
  for (const double score : *numbers) {
    if (!std::isfinite(score)) metadata.refuse(key, "finite numbers");
    scores.push_back(static_cast<float>(score));
  }
  return scores;
}

std::optional<std::uint32_t> token_in(const Metadata& metadata, const char* name, std::size_t count) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  const std::optional<std::int64_t> id = metadata.count(key);
  // 2^32 - 1 says "none" in old files.
  if (!id || *id == 0xffff'ffff) return std::nullopt;
  if (static_cast<std::uint64_t>(*id) >= count) metadata.refuse(key, fmt::format("a token, below {}", count));
  return static_cast<std::uint32_t>(*id);
}

void read_tokens(const Metadata& metadata, Vocabulary& vocabulary) {
  constexpr std::string_view key = "tokenizer.ggml.tokens";
  const Texts* tokens = metadata.texts(key);
  if (tokens == nullptr || tokens->empty()) throw broken("the file has no tokenizer.ggml.tokens: it has no tokenizer");
  vocabulary.tokens.reserve(tokens->size());
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    const std::string_view token = (*tokens)[id];
    if (!is_utf8(token))
      throw broken(fmt::format("token {} of {} is {}, which is no UTF-8", id, key, onnx::quote(token)));
    vocabulary.tokens.push_back(token.empty() ? fmt::format("[EMPTY_{}]", id) : std::string(token));
  }
  vocabulary.ids.reserve(tokens->size());
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    const auto [found, is_new] = vocabulary.ids.emplace(vocabulary.tokens[id], static_cast<std::uint32_t>(id));
    if (!is_new) {
      throw broken(fmt::format("tokens {} and {} of {} are both {}", found->second, id, key,
                               onnx::quote(vocabulary.tokens[id])));
    }
  }
}

// The key's token, those of other keys, and those that are known by their texts.
std::vector<std::uint32_t> end_tokens_of(const Metadata& metadata, Vocabulary& vocabulary) {
  std::vector<std::uint32_t> tokens;
  const auto add = [&](std::optional<std::uint32_t> id) {
    if (id && std::ranges::find(tokens, *id) == tokens.end()) tokens.push_back(*id);
  };
  add(vocabulary.eos);
  for (const char* name : {"eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    add(token_in(metadata, name, vocabulary.tokens.size()));
  }
  for (const std::string_view text : ends) {
    const auto found = vocabulary.ids.find(text);
    if (found == vocabulary.ids.end()) continue;
    vocabulary.kinds[found->second] = TokenKind::control;
    add(found->second);
  }
  return tokens;
}

}  // namespace

Vocabulary read_vocabulary(const Metadata& metadata) {
  constexpr std::string_view model_key = "tokenizer.ggml.model";
  Vocabulary vocabulary;
  vocabulary.model = std::string(metadata.text(model_key).value_or(""));
  const bool is_sentencepiece = vocabulary.model == "llama";
  if (!is_sentencepiece && vocabulary.model != "gpt2") metadata.refuse(model_key, "gpt2, llama");
  read_tokens(metadata, vocabulary);
  const std::size_t count = vocabulary.tokens.size();
  vocabulary.kinds = kinds_in(metadata, count);
  vocabulary.scores = scores_in(metadata, count);
  vocabulary.bos = token_in(metadata, "bos", count);
  vocabulary.eos = token_in(metadata, "eos", count);
  vocabulary.unknown = token_in(metadata, "unknown", count);
  vocabulary.padding = token_in(metadata, "padding", count);
  vocabulary.adds_bos = is_sentencepiece;
  vocabulary.adds_space = is_sentencepiece;
  if (!is_sentencepiece) {
    const PreTokenizer* split = find_pre_tokenizer(metadata.text("tokenizer.ggml.pre").value_or(""));
    vocabulary.adds_bos = split != nullptr && split->adds_bos;
  } else if (count > 2) {
    // llama.cpp's own, where the file does not say.
    if (!vocabulary.unknown) vocabulary.unknown = 0;
    if (!vocabulary.bos) vocabulary.bos = 1;
    if (!vocabulary.eos) vocabulary.eos = 2;
  }
  vocabulary.adds_bos = metadata.flag("tokenizer.ggml.add_bos_token").value_or(vocabulary.adds_bos);
  vocabulary.adds_eos = metadata.flag("tokenizer.ggml.add_eos_token").value_or(false);
  vocabulary.adds_space = metadata.flag("tokenizer.ggml.add_space_prefix").value_or(vocabulary.adds_space);
  if (vocabulary.adds_bos && !vocabulary.bos)
    throw broken("the file has no tokenizer.ggml.bos_token_id, which is added");
  if (vocabulary.adds_eos && !vocabulary.eos)
    throw broken("the file has no tokenizer.ggml.eos_token_id, which is added");
  vocabulary.end_tokens = end_tokens_of(metadata, vocabulary);
  return vocabulary;
}

}  // namespace gpux::importer::gguf
