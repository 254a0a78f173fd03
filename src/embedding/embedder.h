#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "embedding/sentence_model.h"
#include "gpux/runtime.h"
#include "text/tokenizer.h"

namespace gpux::embedding {

struct EmbedOptions {
  std::optional<std::string> prompt;                 ///< text to put before each; empty: the model's default
  std::size_t max_tokens = 0;                        ///< with the special ones; 0: as many as the model takes
  std::size_t dimensions = 0;                        ///< the vector's first so many; 0: all
  std::optional<bool> normalize;                     ///< to length 1, after the cut; empty: what is cut, else as the
                                                     ///< model says
  std::optional<std::chrono::milliseconds> timeout;  ///< of a run; empty: as long as it takes
};

/// Makes vectors of texts. Each text has a run of its own, so its vector does not depend on what else is asked for; it
/// is the same to the bit where the runtime was loaded with one thread inside an operator.
/// embed() may be called from several threads at once.
class Embedder {
 public:
  /// Errors not_found, invalid_model: the tokenizer, or inputs and outputs that are not those of an encoder.
  Embedder(SentenceModel model, Runtime runtime);

  /// Elements of a vector before it is cut.
  [[nodiscard]] std::size_t dimension() const noexcept { return dimension_; }

  [[nodiscard]] const SentenceModel& model() const noexcept { return model_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// Error usage where the model has fewer dimensions, takes fewer tokens, or its special tokens leave no room.
  void check(const EmbedOptions& options) const;

  /// `text` is UTF-8. The options are taken as check() accepts them.
  /// Errors invalid_input where there is no token; as Runtime::infer().
  [[nodiscard]] std::vector<float> embed(std::string_view text, const EmbedOptions& options = {}) const;

 private:
  /// What an input of the model is given.
  enum class Role : std::uint8_t { ids, mask, types, positions };

  struct Input {
    std::string name;
    Role role;
    ElementType element;
  };

  void find_inputs(const Signature& signature);
  void find_output(const Signature& signature);
  [[nodiscard]] text::Encoding encode(std::string_view text, const EmbedOptions& options) const;
  [[nodiscard]] std::vector<std::uint8_t> pooling_mask(const text::Encoding& encoding,
                                                       const EmbedOptions& options) const;
  [[nodiscard]] const std::string& prompt_of(const EmbedOptions& options) const;
  [[nodiscard]] NamedValues inputs_of(const text::Encoding& encoding) const;
  [[nodiscard]] std::vector<float> pooled(const Tensor& output, const text::Encoding& encoding,
                                          const EmbedOptions& options) const;

  SentenceModel model_;
  Runtime runtime_;
  text::Tokenizer tokenizer_;
  std::vector<Input> inputs_;
  std::string output_;
  bool output_is_pooled_ = false;
  std::size_t dimension_ = 0;
};

}  // namespace gpux::embedding
