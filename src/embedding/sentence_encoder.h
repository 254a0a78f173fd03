#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/sentence_model.h"
#include "embedding/output_choice.h"
#include "embedding/pooling.h"
#include "embedding/representation.h"
#include "embedding/sparse_vector.h"
#include "embedding/token_inputs.h"
#include "gpux/runtime.h"
#include "text/tokenizer.h"

namespace gpux::embedding {

struct EmbedOptions {
  std::optional<std::string> prompt;                 ///< text to put before each; empty: the model's default
  std::optional<std::size_t> task;                   ///< index in SentenceModel::tasks; empty: the model's default
  std::size_t max_tokens = 0;                        ///< with the special ones; 0: as many as the model takes
  std::size_t dimensions = 0;                        ///< the vector's first so many; 0: SentenceModel::dimensions
  std::optional<bool> truncate_left;                 ///< at which end longer texts are cut; empty: as the model says
  std::optional<bool> normalize;                     ///< to length 1, after the cut; empty: what is cut, else as the
                                                     ///< model says
  std::optional<std::chrono::milliseconds> timeout;  ///< maximum time of a run; empty: no limit
  bool truncate = true;                              ///< false: a text that is too long is an error
  std::size_t max_text_bytes = 0;                ///< maximum size of a text that may have to be tokenized; 0: no limit
  std::optional<Representation> representation;  ///< empty: SentenceEncoder::default_representation()
  TextRole role = TextRole::document;  ///< query or document, for late interaction; selects the default prompt
  SparseLimits sparse;                 ///< limits of sparse vectors
  bool with_sparse = false;            ///< dense vectors: with the text's sparse vector of the same run, without limits
};

/// Takes the model's prompt of that name, with its task and role. False: it has none.
[[nodiscard]] bool choose_prompt(const checkpoint::SentenceModel& model, std::string_view name, EmbedOptions& options);

/// The names of the model's prompts.
[[nodiscard]] std::vector<std::string> prompt_names(const checkpoint::SentenceModel& model);

/// "exact", "throughput"; empty where it is neither.
std::optional<TextBatching> batching_from(std::string_view name) noexcept;

/// throughput on a GPU or NPU, whose kernels depend on the size of a run and which a single text leaves idle; exact on
/// processors. The first active provider decides. Pure.
TextBatching default_batching(const Verdict& verdict) noexcept;

/// Tokens that a text of so many is filled up to for TextBatching::throughput, so that texts of near lengths have one:
/// a quarter more at most where it has 12 or more. Pure.
std::size_t filled_length(std::size_t tokens) noexcept;

/// A text on its way through a model.
struct PreparedText {
  NamedValues inputs;                      ///< inputs of the model, each [1, length]
  std::size_t tokens = 0;                  ///< with the special ones, after the cut
  std::size_t length = 0;                  ///< tokens, and what fills them up behind
  std::vector<std::uint8_t> pooling_mask;  ///< a token each, 0: does not count; empty where the graph pools
  std::vector<std::uint32_t> ids;          ///< ids of the tokens
  std::vector<std::uint8_t> scored;  ///< for late interaction, one for each of `tokens`; 0: its vector is left out
};

/// What goes into a model for a text, and the vector of what comes out of it. May be used by several threads at once.
class SentenceEncoder {
 public:
  /// `runtime` holds the model: asked for its signature, and for a run where the file does not say how long its vectors
  /// are. Errors not_found, invalid_model: the tokenizer, or inputs and outputs that are not those of an encoder, as
  /// choose_output() has it.
  /// `batching`: empty: default_batching() of the runtime's verdict.
  SentenceEncoder(checkpoint::SentenceModel model, const Runtime& runtime, std::optional<TextBatching> batching = {});

  /// Elements of a vector of default_representation() unless other dimensions are requested; entries of the vocabulary
  /// for sparse vectors.
  [[nodiscard]] std::size_t dimension() const noexcept { return dimension({}); }

  /// Dimension of the representation that the options request.
  [[nodiscard]] std::size_t dimension(const EmbedOptions& options) const noexcept;

  /// Whether dense vectors have the length 1 with these options.
  [[nodiscard]] bool is_normalized(const EmbedOptions& options) const noexcept;

  /// Whether the model makes such representations of texts.
  [[nodiscard]] bool represents(Representation representation) const noexcept;

  /// The first that the model has: dense, sparse, multi_vector.
  [[nodiscard]] Representation default_representation() const noexcept;

  /// The one that the options ask for.
  [[nodiscard]] Representation representation(const EmbedOptions& options) const noexcept {
    return options.representation.value_or(default_representation());
  }

  [[nodiscard]] const checkpoint::SentenceModel& model() const noexcept { return model_; }

  [[nodiscard]] const text::Tokenizer& tokenizer() const noexcept { return tokenizer_; }

  [[nodiscard]] TextBatching batching() const noexcept { return batching_; }

  /// Why texts are not filled up to near lengths though TextBatching::throughput would have it: two texts were filled
  /// up, and their outputs were others, or the model failed; or there is no mask. Empty where they are, and where
  /// nothing has it so.
  [[nodiscard]] const std::string& filling_problem() const noexcept { return filling_problem_; }

  /// Whether default_batching() decided it.
  [[nodiscard]] bool has_default_batching() const noexcept { return has_default_batching_; }

  /// Whether the model's file computes the adapter of a text's task.
  [[nodiscard]] bool takes_task() const noexcept { return inputs_.takes_task(); }

  /// The text's task; empty: none, or the first while options are not checked.
  [[nodiscard]] std::optional<std::size_t> task(const EmbedOptions& options) const noexcept {
    return options.task ? options.task : model_.default_task;
  }

  /// The output of the model that vectors with these options are made of.
  [[nodiscard]] const std::string& output(const EmbedOptions& options) const noexcept;

  /// The only outputs that are needed: output(options), and with `with_sparse` that of sparse vectors behind it.
  [[nodiscard]] std::vector<std::string> outputs(const EmbedOptions& options) const;

  /// The output with the vectors of the tokens; empty where there is none.
  [[nodiscard]] const std::string& token_output() const noexcept { return choice_.token_vectors; }

  /// `output` is what token_output() came to, of [1, length, width]; gives float32 of [tokens, width]. Error
  /// invalid_model where it is not.
  [[nodiscard]] Tensor token_vectors(const PreparedText& prepared, const Value& output) const;

  /// Error usage where the model makes no such representation, or an option is not for it; where the model has fewer
  /// dimensions, takes fewer tokens, or its special tokens leave no room; where
  /// its graph makes vectors of length 1, other ones are requested, and it has no vectors of tokens to pool instead;
  /// where the model's file needs a task and there is none, or has no adapters and there is one.
  void check(const EmbedOptions& options) const;

  /// `text` is UTF-8. The options are taken as check() accepts them. Error invalid_input where there is no token, the
  /// text is too long and not to be cut, more of it than max_text_bytes would have to be tokenized, or it has a token
  /// that the model has no embedding for.
  [[nodiscard]] PreparedText prepare(std::string_view text, const EmbedOptions& options) const;

  /// About the most tokens that prepare() makes of a text of so many bytes: one of each, within the limit.
  [[nodiscard]] std::size_t max_tokens_of(std::size_t text_bytes, const EmbedOptions& options) const;

  /// `output` is what output(options) came to, of [1, width] or [1, length, width]. Error invalid_model where it is
  /// not, or has NaN or infinite numbers.
  [[nodiscard]] std::vector<float> finish(const PreparedText& prepared, const Value& output,
                                          const EmbedOptions& options) const;

  /// Finishes a run in any representation: finish() for dense ones, without what `with_sparse` adds.
  [[nodiscard]] Embedding represent(const PreparedText& prepared, const Value& output,
                                    const EmbedOptions& options) const;

  /// The same, of all that outputs(options) came to.
  [[nodiscard]] Embedding represent_all(const PreparedText& prepared, const NamedValues& outputs,
                                        const EmbedOptions& options) const;

 private:
  void find_outputs(const Signature& signature);
  void find_dense_output(const Signature& signature);

  /// Before anything is cut.
  [[nodiscard]] std::size_t max_dimension(const EmbedOptions& options) const noexcept {
    return dimensions_.at(static_cast<std::size_t>(representation(options)));
  }

  [[nodiscard]] VectorSettings vector_settings() const noexcept;

  [[nodiscard]] std::size_t& dimension_of(Representation representation) noexcept {
    return dimensions_.at(static_cast<std::size_t>(representation));
  }

  void find_left_out_tokens();
  /// Sets fills_up_ and filling_problem_.
  void find_filling(const Runtime& runtime);
  /// Whether texts of `tokens` give the same filled up to `length`.
  [[nodiscard]] bool keeps_outputs(const Runtime& runtime, std::size_t tokens, std::size_t length) const;
  /// Filled up behind its tokens.
  [[nodiscard]] PreparedText of_length(const text::Encoding& encoding, std::size_t length,
                                       const EmbedOptions& options) const;
  void check_representation(const EmbedOptions& options) const;
  void check_task(const EmbedOptions& options) const;
  [[nodiscard]] Embedding sparse(const PreparedText& prepared, const Value& output, SparseLimits limits) const;
  [[nodiscard]] Embedding multi_vector(const PreparedText& prepared, const Tensor& output,
                                       const EmbedOptions& options) const;
  [[nodiscard]] PreparedText prepare_late_interaction(std::string_view text, const EmbedOptions& options) const;
  [[nodiscard]] std::size_t limit_of(const EmbedOptions& options) const noexcept;
  /// Whether the vectors of tokens become one here rather than in the graph.
  [[nodiscard]] bool pools(const EmbedOptions& options) const noexcept;
  /// `inserted` tokens are to be added.
  [[nodiscard]] text::Encoding encode(std::string_view text, const EmbedOptions& options,
                                      std::size_t inserted = 0) const;
  [[nodiscard]] std::vector<std::uint8_t> pooling_mask(const text::Encoding& encoding,
                                                       const EmbedOptions& options) const;
  /// Of a model that is given max_tokens for every text.
  [[nodiscard]] PreparedText padded(const text::Encoding& encoding, const EmbedOptions& options) const;
  /// The model's inputs of TokenInputs::values(). Error invalid_input for a token that the model has no embedding for.
  [[nodiscard]] NamedValues inputs_of(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> type_ids,
                                      std::size_t length, std::uint32_t padding_token,
                                      const EmbedOptions& options) const;
  [[nodiscard]] const std::string& prompt_of(const EmbedOptions& options) const;
  [[nodiscard]] std::vector<float> pooled(const Tensor& output, const PreparedText& prepared,
                                          const EmbedOptions& options) const;

  checkpoint::SentenceModel model_;
  text::Tokenizer tokenizer_;
  TextBatching batching_;
  bool has_default_batching_;
  TokenInputs inputs_;
  std::uint64_t embedded_tokens_;  // 0: not known
  OutputChoice choice_;            // of dense vectors; no name: it makes none
  std::string sparse_output_;      // empty: it makes none
  std::string multi_vector_output_;
  std::vector<std::uint32_t> left_out_;  // sorted: tokens that have no weight in sparse vectors
  std::vector<std::uint32_t> skipped_;   // sorted: tokens whose vectors do not count in late interaction
  std::optional<std::uint32_t> expansion_token_;
  std::size_t leading_specials_ = 0;  // that the tokenizer puts before a text
  bool fills_up_ = false;             // texts, to filled_length()
  std::string filling_problem_;
  bool computes_padding_ = true;      // the provider gives vectors for what the mask leaves out
  std::vector<std::string> outputs_;  // of the model
  std::array<std::size_t, representation_names.size()> dimensions_{};  // by representation
};

}  // namespace gpux::embedding
