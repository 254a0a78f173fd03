#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "importer/gguf/metadata.h"

namespace gpux::importer::gguf {

/// llama.cpp's kinds of tokens.
enum class TokenKind : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// tokenizer.ggml.* of a file, checked. Texts are UTF-8, and no two are the same.
struct Vocabulary {
  std::string model;  ///< "gpt2": byte-level BPE; "llama": sentencepiece
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<float> scores;  ///< score of each token; empty: the file has none
  std::unordered_map<std::string_view, std::uint32_t> ids;
  std::optional<std::uint32_t> bos, eos, unknown, padding;
  bool adds_bos = false, adds_eos = false, adds_space = false;
  std::vector<std::uint32_t> end_tokens;  ///< any of them ends a text; `eos` is the first

  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;  // `ids` has views of `tokens`
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  ~Vocabulary() = default;
};

/// Error invalid_model: no vocabulary, one of another model, or values that do not fit each other.
[[nodiscard]] Vocabulary read_vocabulary(const Metadata& metadata);

}  // namespace gpux::importer::gguf
