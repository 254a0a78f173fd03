#include "library/collection_facts.h"

#include "base/format_message.h"
#include "gpux/error.h"

namespace gpux {

vector_store::CollectionFacts facts_of(const OpenEncoder& encoder, const embedding::EmbedOptions& options,
                                       bool is_hybrid) {
  const embedding::SentenceEncoder& sentences = encoder.embedder->encoder();
  const checkpoint::SentenceModel& model = sentences.model();
  vector_store::CollectionFacts facts{
      .model = model.name,
      .digest = "sha256:" + encoder.digest,
      .precision = encoder.embedder->runtime().verdict().precision,
      .dimension = options.dimensions != 0 ? options.dimensions : sentences.dimension(options),
      .distance = model.similarity.value_or(Similarity::cosine),
      .is_normalized = sentences.is_normalized(options),
      .prompt = options.prompt.value_or(model.default_prompt)};
  if (is_hybrid) {
    (void)with_sparse(encoder, options);
    facts.sparse_dimension = sentences.dimension({.representation = embedding::Representation::sparse});
  }
  // Vectors of an adapter are near to no others.
  if (const auto task = sentences.task(options)) facts.prompt = "[" + model.tasks.at(*task) + "] " + facts.prompt;
  return facts;
}

embedding::EmbedOptions with_sparse(const OpenEncoder& encoder, const embedding::EmbedOptions& options) {
  const embedding::SentenceEncoder& sentences = encoder.embedder->encoder();
  if (!sentences.represents(embedding::Representation::sparse)) {
    throw Error(ErrorCode::usage,
                format_message("{}: '{}' makes no sparse vectors beside the dense ones, as BGE-M3 does",
                               setting_named("hybrid"), sentences.model().name));
  }
  embedding::EmbedOptions both = options;
  both.representation = embedding::Representation::dense;
  both.with_sparse = true;
  return both;
}

}  // namespace gpux
