#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "embedding/token_inputs.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/runtime.h"
#include "gpux/tensor.h"
#include "pipeline/answers.h"
#include "pipeline/text_settings.h"
#include "project/project_file.h"
#include "text/tokenizer.h"

namespace gpux::pipeline {

/// One run of the model, of what was given.
struct Part {
  NamedValues inputs;   ///< inputs of the model
  std::size_t row = 0;  ///< row in the caller's inputs
  std::size_t tokens = 0;
  std::vector<TokenPlace> places;  ///< positions of the tokens in the row's text; empty if the task does not need them
};

/// Inputs that are tokenized and ready for the model.
struct Prepared {
  std::vector<Part> parts;         ///< in the order of the rows; each row has at least one
  std::vector<std::string> texts;  ///< a row: the text in which the answer lies; empty where the task does not ask
  std::size_t rows = 0;
};

struct PrepareOptions {
  bool truncate = true;               ///< false: a text that is too long is an error
  std::optional<bool> truncate_left;  ///< empty: as the settings say
  /// Whether the second text of each row counts; the others are left out. Empty: all do.
  std::vector<bool> has_second = {};
  /// Error invalid_input where more bytes of a text would have to be tokenized; 0: no limit.
  std::size_t max_text_bytes = 0;
};

/// Inputs that are checked but not tokenized: a row for each text or pair. Shares the memory of what was given.
struct TextRows {
  Tensor texts, pairs;                     ///< strings; `pairs` empty where none are given
  std::size_t count = 0;                   ///< rows
  bool one_for_all = false;                ///< the only element of `texts` is asked of each of `pairs`
  std::optional<text::EncodedText> first;  ///< its tokens
  NamedValues others;                      ///< given along with the texts
  PrepareOptions options;

  [[nodiscard]] const std::string& text(std::size_t row) const { return texts.strings()[one_for_all ? 0 : row]; }

  /// Null where the row has none.
  [[nodiscard]] const std::string* pair(std::size_t row) const;
};

/// A model that is given texts, and answers as its task has it. Each text, or pair, has a run of its own: its answer
/// does not depend on what else is asked. Immutable: may be used by several threads at once.
///
/// Inputs: strings of [batch], named by the task: `text` and maybe `text_pair`; `query` and `text` for text-ranking;
/// `question` and `context` for question-answering. Other inputs of the model are given along with them. Or the model's
/// own inputs, and no text: takes_text() is false then, and all of this has no part in it.
///
/// Outputs: the model's outputs, of all rows; for text-ranking also `scores` float32 of [batch]; for
/// token-classification `entities`, and for question-answering `answers`, alone: JSON texts of [batch].
class Pipeline {
 public:
  /// Errors of the tokenizer; invalid_model where the model's inputs or outputs are not those of the task.
  Pipeline(TextSettings settings, const Signature& model);

  /// Inputs and outputs for callers: the texts of the task, the model's own inputs, none of them required, and the
  /// outputs.
  [[nodiscard]] const Signature& signature() const noexcept { return signature_; }

  /// Inputs that callers may pass along with texts: signature() without the inputs that are made of the texts.
  [[nodiscard]] std::vector<SignatureEntry> text_inputs() const;

  [[nodiscard]] const TextSettings& settings() const noexcept { return settings_; }

  [[nodiscard]] const text::Tokenizer& tokenizer() const noexcept { return tokenizer_; }

  /// Outputs with labels, and those that are JSON: what `declared` says, and what the settings add.
  [[nodiscard]] std::vector<DeclaredValue> outputs(const std::optional<std::vector<DeclaredValue>>& declared) const;

  /// Whether there is a text among the values, or none of the model's own inputs: prepare() names the text then.
  [[nodiscard]] bool takes_text(const NamedValues& given) const noexcept;

  /// The rows of what was given. One text for many is tokenized here, once. Error invalid_input.
  [[nodiscard]] TextRows rows(const NamedValues& given, const PrepareOptions& options = {}) const;

  /// Tokenizes a row into the inputs of its runs: one run, or several for a long context. Errors invalid_input, which
  /// name no row.
  [[nodiscard]] std::vector<Part> prepare_row(const TextRows& rows, std::size_t row) const;

  /// The row's text, in which places lie; empty where the task does not ask for it.
  [[nodiscard]] std::string answer_text(const TextRows& rows, std::size_t row) const;

  /// All rows. Error invalid_input.
  [[nodiscard]] Prepared prepare(const NamedValues& given, const PrepareOptions& options = {}) const;

  /// The outputs of the model that each part has to be run for, to get these of signature() (empty: all).
  /// Error invalid_input where there is none of a name.
  [[nodiscard]] std::vector<std::string> model_outputs(std::span<const std::string> names) const;

  /// `results` are the model's, a part each. Gives the outputs of those names in their order; without any, all.
  /// Errors invalid_model where they are not what the task needs.
  [[nodiscard]] NamedValues finish(const Prepared& prepared, std::span<const NamedValues> results,
                                   std::span<const std::string> names) const;

  /// The logits of a classifier or ranker.
  [[nodiscard]] const std::string& logits() const noexcept { return logits_; }

 private:
  void find_outputs(const Signature& model);
  [[nodiscard]] const SignatureEntry* model_output(std::string_view name) const noexcept;
  [[nodiscard]] text::EncodeOptions encode_options(const PrepareOptions& options) const;
  [[nodiscard]] text::Encoding encode_row(const TextRows& rows, std::size_t row) const;
  [[nodiscard]] std::vector<std::uint32_t> templated_row(const TextRows& rows, std::size_t row,
                                                         const checkpoint::PairTemplate& pair_template) const;
  [[nodiscard]] std::vector<Part> prepare_windows(const TextRows& rows, std::size_t row) const;
  [[nodiscard]] Part part_of(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> type_ids,
                             std::size_t row) const;
  [[nodiscard]] std::vector<TokenPlace> places_in(const text::Encoding& encoding, std::string_view text,
                                                  std::uint32_t sequence) const;
  [[nodiscard]] Tensor answers(const Prepared& prepared, std::span<const NamedValues> results) const;
  [[nodiscard]] Tensor entities(const Prepared& prepared, std::span<const NamedValues> results) const;

  TextSettings settings_;
  text::Tokenizer tokenizer_;
  embedding::TokenInputs inputs_;
  std::string first_, second_;  // the texts' names; second_ may be empty
  bool needs_second_ = false;
  bool continues_with_mark_ = false;  // as WordPiece's "##"
  std::vector<SignatureEntry> model_outputs_;
  std::string logits_, start_logits_, end_logits_;
  Signature signature_;
};

/// Prepares, runs each part and finishes: all outputs, or those of options.outputs. Errors of each.
NamedValues infer(const Pipeline& pipeline, const Runtime& runtime, const NamedValues& given,
                  const InferOptions& options = {});

}  // namespace gpux::pipeline
