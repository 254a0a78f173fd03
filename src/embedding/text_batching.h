#pragma once

#include "embedding/sentence_encoder.h"
#include "gpux/runtime.h"
#include "runtime/batch_plan.h"

namespace gpux::embedding {

/// What texts may share a run. The inputs of those that do have equal shapes, as SentenceEncoder::prepare() makes them.
/// `max_cost` counts tokens, and `max_rows` is 1 where none may. Batching::exact is tried out on the runtime: a few
/// texts run alone and together, and where a bit differs, or the model fails, none may.
runtime::BatchLimits find_batch_limits(const SentenceEncoder& encoder, const Runtime& runtime);

}  // namespace gpux::embedding
