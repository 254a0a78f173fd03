#pragma once

#include "gpux/embedder.h"
#include "model/open_encoder.h"

namespace gpux {

struct Embedder::State {
  OpenEncoder encoder;
  unsigned workers;

  /// As the embedder accepts them. Error usage.
  [[nodiscard]] embedding::EmbedOptions accepted(const EmbeddingOptions& given) const;

 private:
  void apply_prompt(const std::string& name, embedding::EmbedOptions& options) const;
};

}  // namespace gpux
