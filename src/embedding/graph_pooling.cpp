#include "embedding/graph_pooling.h"

#include <algorithm>

#include "embedding/output_choice.h"
#include "gpux/error.h"

namespace gpux::embedding {

std::optional<PooledOutput> graph_pooling(const checkpoint::SentenceModel& model, const Signature& signature) {
  constexpr const char* mask = "attention_mask";
  const bool is_otherwise = model.poolings.empty() || !model.dense.empty() || !model.pools_prompt ||
                            model.pads_to_max_tokens || model.splade || model.late_interaction || model.scores_pairs;
  if (is_otherwise || std::ranges::find(signature.inputs, mask, &SignatureEntry::name) == signature.inputs.end()) {
    return std::nullopt;
  }
  try {
    const OutputChoice choice = choose_output(signature.outputs, {.declares_pooling = model.declares_pooling,
                                                                  .can_pool = true,
                                                                  .architecture = model.architecture,
                                                                  .vocabulary = model.vocabulary});
    if (choice.is_pooled || !choice.is_known) return std::nullopt;
    return PooledOutput{.token_vectors = choice.name,
                        .attention_mask = mask,
                        .poolings = model.poolings,
                        .normalizes = model.normalize};
  } catch (const Error&) {
    return std::nullopt;  // the encoder reports what is wrong with them
  }
}

}  // namespace gpux::embedding
