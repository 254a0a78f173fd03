#pragma once

#include <optional>

#include "checkpoint/sentence_model.h"
#include "gpux/model_info.h"
#include "gpux/options.h"

namespace gpux::embedding {

/// What a graph with these inputs and outputs has to compute to give the vectors that SentenceEncoder makes of the
/// vectors of the tokens. Empty where it has an output with one vector per text already, makes no dense vectors, or
/// where they are made otherwise: by Dense layers, without the prompt's tokens, or without an attention mask. Pure.
[[nodiscard]] std::optional<PooledOutput> graph_pooling(const checkpoint::SentenceModel& model,
                                                        const Signature& signature);

}  // namespace gpux::embedding
