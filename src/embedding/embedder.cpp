#include "embedding/embedder.h"

#include <algorithm>
#include <utility>

#include "gpux/error.h"

namespace gpux::embedding {

TextEmbedder::TextEmbedder(checkpoint::SentenceModel model, Runtime runtime, std::optional<TextBatching> batching)
    : runtime_(std::move(runtime)), encoder_(std::move(model), runtime_, batching) {}

TextSharing TextEmbedder::batching(bool may_try) const {
  Known known = known_;
  if (known == Known::nothing && (may_try || encoder_.batching() == TextBatching::throughput) &&
      known_.compare_exchange_strong(known, Known::being_found)) {
    try {
      found_ = find_text_batching(encoder_, runtime_);
    } catch (const Error& error) {
      found_.sharing = {false, RunSharing::Source::not_proven, error.message()};
    }
    known_ = known = Known::found;
  }
  return known == Known::found ? found_ : TextSharing{.limits = {.max_rows = 1}, .padding = nullptr};
}

std::vector<float> TextEmbedder::embed(std::string_view text, const EmbedOptions& options) const {
  const PreparedText prepared = encoder_.prepare(text, options);
  return std::move(embed(std::span(&prepared, 1), options).front());
}

std::vector<NamedValues> TextEmbedder::run(std::span<const PreparedText> texts, const EmbedOptions& options) const {
  const InferOptions infer{.timeout = options.timeout, .outputs = encoder_.outputs(options)};
  if (texts.size() == 1) {
    std::vector<NamedValues> results;
    results.push_back(runtime_.infer(texts.front().inputs, infer));
    return results;
  }
  std::vector<NamedValues> items;
  items.reserve(texts.size());
  for (const PreparedText& text : texts) items.push_back(text.inputs);
  const bool one_length =
      std::ranges::all_of(texts, [&](const PreparedText& text) { return text.length == texts.front().length; });
  std::int64_t tokens = 0;
  for (const PreparedText& text : texts) tokens = std::max(tokens, static_cast<std::int64_t>(text.length));
  return infer_together(runtime_, items, infer, one_length ? nullptr : found_.padding.get(),
                        runtime::filled_rows(static_cast<std::int64_t>(texts.size()), tokens, found_.limits));
}

std::vector<std::vector<float>> TextEmbedder::embed(std::span<const PreparedText> texts,
                                                    const EmbedOptions& options) const {
  const std::vector<NamedValues> results = run(texts, options);
  std::vector<std::vector<float>> vectors;
  vectors.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    vectors.push_back(encoder_.finish(texts[i], results[i].front().second, options));
  }
  return vectors;
}

Embedding TextEmbedder::represent(std::string_view text, const EmbedOptions& options) const {
  const PreparedText prepared = encoder_.prepare(text, options);
  return std::move(represent(std::span(&prepared, 1), options).front());
}

std::vector<Embedding> TextEmbedder::represent(std::span<const PreparedText> texts, const EmbedOptions& options) const {
  const std::vector<NamedValues> results = run(texts, options);
  std::vector<Embedding> embeddings;
  embeddings.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    embeddings.push_back(encoder_.represent_all(texts[i], results[i], options));
  }
  return embeddings;
}

}  // namespace gpux::embedding
