#pragma once

#include <span>
#include <string_view>

namespace gpux::importer::gguf {

/// How a text is taken apart before the merges of byte-level BPE, by tokenizer.ggml.pre.
struct PreTokenizer {
  std::string_view name;
  /// Regular expressions of tokenizer.json, one after the other: their matches, and what lies between, are split off.
  std::span<const std::string_view> patterns;
  /// Then GPT-2's own expression splits, as ByteLevel of tokenizer.json does with use_regex.
  bool has_gpt2_split = false;
  bool ignores_merges = false;  ///< a whole word that is a token is that token
  bool adds_bos = false;        ///< where the file does not say
};

/// The pre-tokenizer of that name; null if it is not known.
[[nodiscard]] const PreTokenizer* find_pre_tokenizer(std::string_view name) noexcept;

[[nodiscard]] std::span<const PreTokenizer> pre_tokenizers() noexcept;

}  // namespace gpux::importer::gguf
