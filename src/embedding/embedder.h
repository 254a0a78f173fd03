#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "embedding/text_batching.h"
#include "gpux/runtime.h"

namespace gpux::embedding {

/// Makes vectors of texts. With TextBatching::exact, the vector of a text does not depend on other texts; it is
/// bit-identical if the runtime was loaded with one thread inside an operator.
/// Any thread may call.
class TextEmbedder {
 public:
  /// Errors as of SentenceEncoder.
  TextEmbedder(checkpoint::SentenceModel model, Runtime runtime, std::optional<TextBatching> batching = {});

  [[nodiscard]] const SentenceEncoder& encoder() const noexcept { return encoder_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// Which texts may share a run: the result of find_text_batching(), which the first call with `may_try` runs. Before
  /// it has a result, or if it fails: none.
  [[nodiscard]] TextSharing batching(bool may_try) const;

  /// `text` is UTF-8. The options are taken as SentenceEncoder::check() accepts them.
  /// Errors as of SentenceEncoder::prepare() and Runtime::infer().
  [[nodiscard]] std::vector<float> embed(std::string_view text, const EmbedOptions& options = {}) const;

  /// A vector for each of the texts, which are as encoder().prepare() made them, and share a run as batching() allows
  /// it. Errors as of Runtime::infer().
  [[nodiscard]] std::vector<std::vector<float>> embed(std::span<const PreparedText> texts,
                                                      const EmbedOptions& options) const;

  /// embed() for any representation: EmbedOptions chooses dense, sparse or token vectors. Errors as of embed().
  [[nodiscard]] Embedding represent(std::string_view text, const EmbedOptions& options = {}) const;
  [[nodiscard]] std::vector<Embedding> represent(std::span<const PreparedText> texts,
                                                 const EmbedOptions& options) const;

 private:
  [[nodiscard]] std::vector<NamedValues> run(std::span<const PreparedText> texts, const EmbedOptions& options) const;

  enum class Known : std::uint8_t { nothing, being_found, found };

  Runtime runtime_;
  SentenceEncoder encoder_;
  mutable std::atomic<Known> known_{Known::nothing};
  mutable TextSharing found_{.limits = {.max_rows = 1}, .padding = nullptr};  // written once, before known_ says so
};

}  // namespace gpux::embedding
