#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/dense_layer.h"
#include "checkpoint/late_interaction.h"
#include "checkpoint/pooling.h"
#include "checkpoint/splade_pooling.h"
#include "gpux/similarity.h"

namespace gpux::checkpoint {

/// Settings for making vectors of texts, read from a folder in the layout of sentence-transformers or Hugging Face.
struct SentenceModel {
  std::string name;                          ///< the folder's
  std::filesystem::path transformer_folder;  ///< where config.json and weights lie
  std::filesystem::path onnx_file;
  std::filesystem::path tokenizer_file;

  std::vector<Pooling> poolings;    ///< put one behind the other; empty: the ONNX file itself has to pool
  bool declares_pooling = false;    ///< modules.json names the poolings; false: they are the default
  bool pools_prompt = true;         ///< false: the prompt's tokens do not count
  std::vector<DenseLayer> dense;    ///< behind the poolings, in order; of late interaction, of each token's vector
  bool normalize = false;           ///< to length 1
  bool graph_normalizes = true;     ///< where `normalize`: an output with one vector per text is of length 1 already
  std::size_t max_tokens = 0;       ///< with the special ones; 0: no limit
  bool truncate_left = false;       ///< longer texts are truncated at the beginning
  std::int64_t first_position = 0;  ///< position id of the first token
  std::uint32_t padding_token = 0;  ///< pads shorter texts
  bool pads_to_max_tokens =
      false;                     ///< every text is padded to max_tokens, and the model attends to the padding: SigLIP
  bool has_token_types = true;   ///< false: the model gets zeros for token_type_ids, also for the second of a pair
  std::string architecture;      ///< the first of config.json ("BertModel"); may be empty
  std::uint64_t vocabulary = 0;  ///< tokens that the model has embeddings for, as config.json says; 0: it does not
  std::size_t dimensions = 0;    ///< truncate_dim: vectors are cut after all modules; 0: they are not
  std::size_t sparse_top_k = 0;  ///< max_active_dims: the weights that are kept of sparse vectors; 0: all
  std::optional<Similarity> similarity;  ///< how its vectors are compared; empty: it does not say

  std::optional<SpladePooling> splade;              ///< modules.json names a SpladePooling: vectors are sparse
  std::optional<LateInteraction> late_interaction;  ///< a text has a vector per token
  bool scores_pairs = false;                        ///< modules.json names a LogitScore: it makes no vectors

  std::vector<std::pair<std::string, std::string>> prompts;  ///< name, text to put before what is embedded
  std::string default_prompt;                                ///< text; may be empty

  /// Tasks that the weights have adapters for, in the order of their numbers ("retrieval.query"). Each is a prompt's
  /// name.
  std::vector<std::string> tasks;
  std::optional<std::size_t> default_task;  ///< task of texts whose prompt belongs to no task; empty: no adapter

  /// The task of that name; empty where there is none.
  [[nodiscard]] std::optional<std::size_t> task_named(std::string_view name) const noexcept;
};

/// The tokens that a folder's model takes, from the folder's settings.
struct TokenLimits {
  std::size_t max_tokens = 0;  ///< with the special ones; 0: no limit
  bool truncate_left = false;
  std::int64_t first_position = 0;  ///< position id of the first token
  std::uint32_t padding_token = 0;
  bool pads_to_max_tokens = false;
  bool has_token_types = true;   ///< as in SentenceModel
  std::uint64_t vocabulary = 0;  ///< as in SentenceModel
};

/// vocab_size of config.json in the folder, or of its text tower: the tokens that the model has embeddings for. 0 if it
/// does not say. Error invalid_model.
std::uint64_t vocabulary_of(const std::filesystem::path& folder);

/// Reads sentence_bert_config.json (or an older name of it), tokenizer_config.json and config.json. As in
/// sentence-transformers, max_seq_length of the first counts in place of model_max_length of the second; the positions
/// of the last are a limit, too, unless they are computed (rotary, ALiBi) and the first says more. What is not there is
/// not missed. Error invalid_model, also for a setting of the first that changes the tokens and is not supported.
TokenLimits read_token_limits(const std::filesystem::path& folder);

/// Where modules.json has the Transformer's files: the folder itself where it does not say, or is not there. Error
/// invalid_model.
std::filesystem::path transformer_folder_of(const std::filesystem::path& folder);

/// The folder of the file, or the one above where that is `onnx`: the one that has a tokenizer.json. Empty where
/// neither has.
std::optional<std::filesystem::path> tokenizer_folder_of(const std::filesystem::path& onnx_file);

/// Reads, below `folder`:
/// - tokenizer.json, and the ONNX file: looked for, not read. It is `onnx_file`, relative to the folder, where that is
///   given; else model.onnx, onnx/model.onnx, or the only one in these places where there are no safetensors;
/// - modules.json: Transformer, Pooling, Dense, Normalize; or a masked language model and a SpladePooling; or
///   Transformer, Dense, MultiVectorMask, Normalize of late interaction. Without it: mean pooling, no normalisation;
/// - config.json of the Pooling: pooling_mode or pooling_mode_*, include_prompt;
/// - sentence_bert_config.json, tokenizer_config.json, config.json: as read_token_limits() has it; architectures and
///   vocab_size of the last;
/// - config_sentence_transformers.json: prompts, default_prompt_name, truncate_dim, max_active_dims,
///   similarity_fn_name;
/// - lora_adaptations and task_instructions of config.json, and default_task in model_args of
///   sentence_bert_config.json: the tasks of Jina's adapters. Instructions are prompts where the file above has none of
///   the task's name.
/// Errors not_found; invalid_model with the file's name for what is malformed or cannot be done.
SentenceModel read_sentence_model(const std::filesystem::path& folder, const std::filesystem::path& onnx_file = {});

/// The sentence model that an ONNX file is part of, in its tokenizer_folder_of(). Empty where there is none. Errors as
/// above.
std::optional<SentenceModel> sentence_model_of(const std::filesystem::path& onnx_file);

/// Reads the settings where there is no ONNX file yet, and maybe no tokenizer: neither is looked for.
SentenceModel read_sentence_settings(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint
