#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpux/model_info.h"

namespace gpux::embedding {

/// Facts from the files next to the ONNX file that decide which output holds the vectors of texts.
struct OutputFacts {
  bool declares_pooling = false;  ///< modules.json names a Pooling
  bool can_pool = true;           ///< false: modules.json names none
  std::string architecture;       ///< the first of config.json ("DPRQuestionEncoder"); may be empty
  std::uint64_t vocabulary = 0;   ///< tokens, as config.json or the tokenizer says; 0: not known
};

/// The output that vectors are made of.
struct OutputChoice {
  std::string name;
  bool is_pooled = false;     ///< one vector per text, [batch, width]; else one per token, [batch, sequence, width]
  bool is_known = true;       ///< false: chosen by its shape, so that its width has to be checked, too
  std::string token_vectors;  ///< the output with one vector per token; empty: none
};

/// Chooses among the outputs of a text model, which are of floating types where they count:
/// 1. sentence_embedding, dense_vecs or dense_embeddings of [batch, width], which hold one vector per text by
/// definition;
/// 2. where the folder declares a Pooling: the vectors of the tokens, last_hidden_state or token_embeddings;
/// 3. the output that the architecture defines as its vector: text_embeds of CLIP, pooler_output of DPR and SigLIP;
/// 4. text_embeds of [batch, width];
/// 5. the vectors of the tokens; else the only output of [batch, sequence, width] that holds neither scores of the
///    vocabulary nor weights of words; else pooler_output, where it is all there is.
/// Error invalid_model names what the model has and what is accepted.
[[nodiscard]] OutputChoice choose_output(const std::vector<SignatureEntry>& outputs, const OutputFacts& facts);

/// The output that holds a text's sparse vector, of a floating type; empty: none.
/// 1. sparse_embedding, sparse_embeddings or sparse_vecs: a weight per entry of the vocabulary, [batch, vocabulary], or
///    a weight per token, [batch, sequence, 1];
/// 2. where the folder declares a SpladePooling, or the architecture is a masked language model: logits, or the only
///    output of [batch, sequence, vocabulary].
/// `is_declared`: the folder declares a SpladePooling; error invalid_model where there is no such output then.
[[nodiscard]] std::string choose_sparse_output(const std::vector<SignatureEntry>& outputs, const OutputFacts& facts,
                                               bool is_declared);

/// The output with one vector per token for late interaction, of a floating type and rank 3; empty: none.
/// 1. colbert_vecs, also of a model that makes other vectors, too;
/// 2. of a model that is declared to be one (`is_declared`): token_embeddings, contextual, last_hidden_state or the
/// only
///    output of [batch, sequence, width]; error invalid_model where there is none.
[[nodiscard]] std::string choose_multi_vector_output(const std::vector<SignatureEntry>& outputs,
                                                     const OutputFacts& facts, bool is_declared);

/// Why vectors of this width, of an output chosen by its shape, are not those of tokens; empty: nothing speaks against.
[[nodiscard]] std::string width_problem(std::int64_t width, std::uint64_t vocabulary);

}  // namespace gpux::embedding
