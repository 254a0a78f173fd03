#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/protocols/field.h"
#include "server/protocols/request_json.h"
#include "server/protocols/text_inputs.h"

/// Requests about tokens. Sources: the README of llama.cpp's server for "content" and "tokens"; vLLM's server for
/// "prompt".
namespace gpux::server::llama_cpp {

/// POST /tokenize for the ids of the tokens of one text.
struct TokenizeText {
  std::string model;  ///< empty: the one that can
  std::string text;
  bool special_tokens = false;  ///< with those that the tokenizer adds around a text
  bool shows_pieces = false;    ///< the text of each token beside its id
  bool is_counted = false;      ///< the answer has vLLM's form, with the number of tokens
};

/// Whether the body asks for ids: it has "content" or "prompt", and not "inputs".
bool asks_for_ids(std::string_view body);

TokenizeText read_tokenize_text(std::string_view body, const BodyReading& reading = {});

/// POST /detokenize: {"tokens"}.
struct Detokenize {
  std::string model;  ///< empty: the one that can
  TokenIds ids;
};

Detokenize read_detokenize(std::string_view body, const BodyReading& reading = {});

std::span<const Field> content_fields();
std::span<const Field> prompt_fields();
std::span<const Field> detokenize_fields();

}  // namespace gpux::server::llama_cpp
