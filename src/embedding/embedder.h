#pragma once

#include <string_view>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "gpux/runtime.h"

namespace gpux::embedding {

/// Makes vectors of texts. Each text has a run of its own, so its vector does not depend on what else is asked for; it
/// is the same to the bit where the runtime was loaded with one thread inside an operator.
/// embed() may be called from several threads at once.
class Embedder {
 public:
  /// Errors as of SentenceEncoder.
  Embedder(SentenceModel model, Runtime runtime);

  [[nodiscard]] const SentenceEncoder& encoder() const noexcept { return encoder_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// `text` is UTF-8. The options are taken as SentenceEncoder::check() accepts them.
  /// Errors as of SentenceEncoder::prepare() and Runtime::infer().
  [[nodiscard]] std::vector<float> embed(std::string_view text, const EmbedOptions& options = {}) const;

 private:
  Runtime runtime_;
  SentenceEncoder encoder_;
};

}  // namespace gpux::embedding
