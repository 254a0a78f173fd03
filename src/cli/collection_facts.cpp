#include "cli/collection_facts.h"

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::cli {

vector_store::CollectionFacts facts_of(const OpenEncoder& encoder, bool is_hybrid) {
  const embedding::SentenceEncoder& sentences = encoder.embedder->encoder();
  const checkpoint::SentenceModel& model = sentences.model();
  vector_store::CollectionFacts facts{.model = model.name,
                                      .digest = "sha256:" + encoder.digest,
                                      .precision = encoder.embedder->runtime().verdict().precision,
                                      .dimension = encoder.dimension,
                                      .distance = model.similarity.value_or(Similarity::cosine),
                                      .is_normalized = encoder.options.normalize.value_or(model.normalize),
                                      .prompt = encoder.options.prompt.value_or(model.default_prompt)};
  if (is_hybrid) facts.sparse_dimension = sentences.dimension(sparse_options(encoder));
  // Vectors of an adapter are near to no others.
  if (const auto task = sentences.task(encoder.options)) {
    facts.prompt = "[" + model.tasks.at(*task) + "] " + facts.prompt;
  }
  return facts;
}

embedding::EmbedOptions sparse_options(const OpenEncoder& encoder) {
  const embedding::SentenceEncoder& sentences = encoder.embedder->encoder();
  if (!sentences.represents(embedding::Representation::sparse)) {
    throw Error(ErrorCode::usage,
                fmt::format("--hybrid: '{}' makes no sparse vectors beside the dense ones, as BGE-M3 does",
                            sentences.model().name));
  }
  embedding::EmbedOptions options = encoder.options;
  options.representation = embedding::Representation::sparse;
  options.dimensions = 0;
  options.normalize.reset();
  return options;
}

}  // namespace gpux::cli
