#pragma once

#include <optional>

#include "checkpoint/sentence_model.h"
#include "gpux/model_info.h"
#include "gpux/options.h"

namespace gpux::embedding {

/// The pooling that a graph with these inputs and outputs must compute itself to return the same vectors as
/// SentenceEncoder. Empty where it has an output with one vector per text already, makes no dense vectors, or where
/// they are made otherwise: by Dense layers, without the prompt's tokens, or without an attention mask. Pure.
[[nodiscard]] std::optional<PooledOutput> graph_pooling(const checkpoint::SentenceModel& model,
                                                        const Signature& signature);

}  // namespace gpux::embedding
