#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gpux::checkpoint {

/// Query expansion: shorter queries get mask tokens up to a length, whose vectors count, too.
struct QueryExpansion {
  std::size_t length = 0;    ///< tokens with the special ones
  bool is_maximum = true;    ///< longer queries are truncated to `length`
  bool is_attended = false;  ///< the other tokens attend to the mask tokens
  std::string token;         ///< empty: the tokenizer's mask token, or its end-of-sequence token

  bool operator==(const QueryExpansion&) const = default;
};

/// A late-interaction model (ColBERT): a text has one vector per token, and a query's score for a document is the sum
/// over the query's tokens of the greatest product with a token of the document (MaxSim).
struct LateInteraction {
  std::string query_prompt, document_prompt;  ///< before the texts
  /// The prompts begin with a marker token of the vocabulary, which is inserted and not spelled.
  bool has_markers = false;
  std::size_t query_tokens = 0, document_tokens = 0;  ///< maximum with the special ones; 0: the model's
  std::optional<QueryExpansion> expansion;
  std::vector<std::string> skipped_words;  ///< tokens whose vectors do not count
  bool skips_in_documents = true, skips_in_queries = false;
  bool is_mean = false;    ///< the score is divided by the number of the query's tokens (MeanMaxSim)
  bool normalize = false;  ///< each vector to length 1
};

/// Whether the folder is a late-interaction model of Stanford's colbert-ir (config.json names HF_ColBERT), of PyLate
/// (config_sentence_transformers.json: model_type ColBERT) or of sentence-transformers (MultiVectorEncoder).
enum class LateInteractionKind : std::uint8_t { none, stanford, pylate, multi_vector_encoder };

/// Reads config_sentence_transformers.json of `root`, and config.json of `transformer`. Error invalid_model.
LateInteractionKind late_interaction_kind(const std::filesystem::path& root, const std::filesystem::path& transformer);

/// The settings of such a model: artifact.metadata of Stanford's; config_sentence_transformers.json and
/// sentence_bert_config.json of the others. The modules of modules.json are read_late_interaction_mask()'s.
/// Sources: sentence_transformers.multi_vector_encoder, which reads all three. Error invalid_model.
LateInteraction read_late_interaction(LateInteractionKind kind, const std::filesystem::path& root,
                                      const std::filesystem::path& transformer);

/// config.json of a MultiVectorMask: skiplist_words, skiplist_tasks. Error invalid_model, also for what it keeps of
/// images.
void read_late_interaction_mask(const std::filesystem::path& folder, LateInteraction& settings);

}  // namespace gpux::checkpoint
