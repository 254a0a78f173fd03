#include "cli/collection_facts.h"

#include <algorithm>

namespace gpux::cli {

vector_store::CollectionFacts facts_of(const OpenEncoder& encoder) {
  const embedding::SentenceEncoder& sentences = encoder.embedder->encoder();
  const checkpoint::SentenceModel& model = sentences.model();
  vector_store::CollectionFacts facts{.model = model.name,
                                      .digest = "sha256:" + encoder.digest,
                                      .precision = encoder.embedder->runtime().verdict().precision,
                                      .dimension = encoder.dimension,
                                      .distance = model.similarity.value_or(Similarity::cosine),
                                      .prompt = encoder.options.prompt.value_or(model.default_prompt)};
  // Vectors of an adapter are near to no others.
  if (const auto task = sentences.task(encoder.options)) {
    facts.prompt = "[" + model.tasks.at(*task) + "] " + facts.prompt;
  }
  return facts;
}

}  // namespace gpux::cli
