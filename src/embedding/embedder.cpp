#include "embedding/embedder.h"

#include <utility>

namespace gpux::embedding {

Embedder::Embedder(SentenceModel model, Runtime runtime)
    : runtime_(std::move(runtime)), encoder_(std::move(model), runtime_) {}

std::vector<float> Embedder::embed(std::string_view text, const EmbedOptions& options) const {
  const PreparedText prepared = encoder_.prepare(text, options);
  const NamedValues outputs =
      runtime_.infer(prepared.inputs, {.timeout = options.timeout, .outputs = {encoder_.output()}});
  return encoder_.finish(prepared, outputs.front().second, options);
}

}  // namespace gpux::embedding
