#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/zero_shot.h"
#include "project/project_file.h"
#include "server/protocols/field.h"
#include "server/protocols/request_json.h"
#include "server/protocols/text_inputs.h"
#include "text/tokenizer.h"

/// Requests to text models in the form of Hugging Face's text-embeddings-inference. Each reader takes the body of a
/// request. Error invalid_input that names the place; members that are not known, or mean what cannot be done, are
/// refused. Reading is linear, ends at the first value that no request has, and checks the cancellation at intervals:
/// Errors of Cancellation::check().
namespace gpux::server {

/// How a text that is too long is dealt with, and what is put before it.
struct TextTreatment {
  bool truncate = true;  ///< false: refused
  bool truncate_left = false;
  std::string prompt_name;  ///< empty: the default prompt
};

/// POST /embed: {"inputs", "truncate", "truncation_direction", "prompt_name", "normalize", "dimensions"}.
/// Source: the OpenAPI document of text-embeddings-inference, as are the following.
struct EmbedTexts {
  std::vector<TextInput> inputs;
  TextTreatment treatment;
  bool normalize = true;
  std::size_t dimensions = 0;
  bool return_tokens = false;  ///< of sparse vectors: each weight with its token
};

EmbedTexts read_embed(std::string_view body, const BodyReading& reading = {});

/// POST /embed_all: the same without "normalize" and "dimensions".
EmbedTexts read_embed_all(std::string_view body, const BodyReading& reading = {});

/// POST /embed_sparse: the same, and "return_tokens", which is gpux's own.
EmbedTexts read_embed_sparse(std::string_view body, const BodyReading& reading = {});

/// POST /predict: {"inputs", "truncate", "truncation_direction", "raw_scores", "parameters"}: a text, [text], [text,
/// pair], or a list of such lists.
struct ClassifyTexts {
  std::vector<std::string> texts;
  std::vector<std::string> pairs;  ///< as many, or none where no text has one
  std::vector<bool> has_pair;      ///< of each text; the others' in `pairs` are empty
  bool is_list = false;            ///< the answer is to be one too
  bool raw_scores = false;
  /// "parameters": {"function_to_apply", "top_k"}, as huggingface_hub's clients send them.
  std::optional<Activation> activation;
  std::size_t top_k = 0;  ///< 0: all
  /// "parameters": {"candidate_labels", "hypothesis_template", "multi_label"}: no text has a pair then.
  std::optional<ZeroShotOptions> zero_shot;
  TextTreatment treatment;
};

ClassifyTexts read_classify(std::string_view body, const BodyReading& reading = {});

/// For a model that finds entities, as huggingface_hub's clients ask: {"inputs": a text or a list of them,
/// "parameters"}.
struct EntityTexts {
  std::vector<std::string> texts;
  bool is_list = false;  ///< the answer is to be one too
};

EntityTexts read_entities(std::string_view body, const BodyReading& reading = {});

/// For a model that answers questions, in the same way: {"inputs": {"question", "context"} or a list of them,
/// "parameters"}.
struct AskedQuestions {
  std::vector<std::string> questions, contexts;  ///< as many of each
  bool is_list = false;                          ///< the answer is to be one too
};

AskedQuestions read_questions(std::string_view body, const BodyReading& reading = {});

/// POST /rerank: {"query", "texts", "truncate", "truncation_direction", "raw_scores", "return_text"}.
struct Rerank {
  std::string query;
  std::vector<std::string> texts;
  bool raw_scores = false, return_text = false;
  TextTreatment treatment;
};

Rerank read_rerank(std::string_view body, const BodyReading& reading = {});

/// POST /similarity: {"inputs": {"source_sentence", "sentences"}, "parameters"}.
struct Similarity {
  std::string source;
  std::vector<std::string> sentences;
  TextTreatment treatment;
};

/// Whether "inputs" is an object with "source_sentence": such a body means POST /similarity wherever it is sent.
bool is_similarity(std::string_view body);

Similarity read_similarity(std::string_view body, const BodyReading& reading = {});

/// POST /tokenize: {"inputs", "add_special_tokens", "prompt_name"}.
struct Tokenize {
  std::vector<std::string> inputs;
  bool special_tokens = true;
  std::string prompt_name;
};

Tokenize read_tokenize(std::string_view body, const BodyReading& reading = {});

/// POST /decode: {"ids", "skip_special_tokens"}.
struct Decode {
  std::vector<TokenIds> ids;
  bool skip_special_tokens = true;
};

Decode read_decode(std::string_view body, const BodyReading& reading = {});

/// [{"id", "text", "special", "start", "stop"}]: the bytes of each token in the text, null if it is special.
void append_tokens(std::string& out, std::string_view text, const text::Encoding& encoding,
                   const text::Tokenizer& tokenizer);

namespace tei {

/// Fields that each reader accepts.
std::span<const Field> embed_fields();
std::span<const Field> embed_all_fields();
std::span<const Field> embed_sparse_fields();
std::span<const Field> rerank_fields();
std::span<const Field> similarity_fields();
std::span<const Field> tokenize_fields();
std::span<const Field> decode_fields();

}  // namespace tei

}  // namespace gpux::server
