#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/pair_score.h"
#include "gpux/model_info.h"
#include "pipeline/task.h"
#include "project/project_file.h"
#include "text/tokenizer.h"

namespace gpux::pipeline {

/// How texts become a model's inputs, and its outputs answers.
struct TextSettings {
  Task task = Task::none;
  std::filesystem::path tokenizer_file;

  std::size_t max_tokens = 0;  ///< with the special ones; 0: no limit
  bool truncate_left = false;  ///< what is longer is cut at its beginning
  text::PairTruncation pair_truncation = text::PairTruncation::longest_first;
  bool fills_up = false;  ///< shorter ones are filled up to max_tokens with padding_token
  std::uint32_t padding_token = 0;
  std::int64_t first_position = 0;  ///< position id of the first token
  bool has_token_types = true;      ///< false: token_type_ids are 0, also those of the second of a pair
  std::uint64_t vocabulary = 0;     ///< tokens that the model has embeddings for; 0: not known
  std::string prompt;               ///< before the first text of a pair, or the only text; may be empty

  std::vector<std::string> labels;                        ///< labels of the logits' last axis
  Activation activation = Activation::softmax;            ///< what makes scores of logits
  PairActivation ranking = PairActivation::sigmoid;       ///< text ranking: what makes `scores` of logits
  std::optional<checkpoint::PairTemplate> pair_template;  ///< text ranking: joins the pair; else the tokenizer does
  Aggregation aggregation = Aggregation::simple;          ///< token classification
  std::size_t max_answer_tokens = 15;                     ///< question answering
};

/// Reads the text settings from gpux.yml and, for what it does not set, from the files next to the model:
/// tokenizer.json, tokenizer_config.json, sentence_bert_config.json, config.json (architectures, id2label,
/// problem_type), config_sentence_transformers.json (activation_fn, default_prompt_name). `project` may be null. Empty
/// where the model takes no tokens, or there is no tokenizer beside it and none is named. Errors not_found,
/// invalid_model with the file's name; invalid_config with gpux.yml's place.
std::optional<TextSettings> read_text_settings(const std::filesystem::path& onnx_file, const ProjectFile* project,
                                               const Signature& signature);

/// Refuses what read_text_settings() would refuse because of the files in the folder, whatever inputs its model has,
/// and gives the task. Errors invalid_model with the file's name.
Task require_text_settings(const std::filesystem::path& folder);

/// The inputs and outputs that gpux.yml may declare: where the model takes tokens, also the texts that they are made
/// of, and what tasks answer.
Signature declarable(const Signature& model, const ProjectFile& project);

}  // namespace gpux::pipeline
