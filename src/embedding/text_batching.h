#pragma once

#include <memory>
#include <span>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/batch_plan.h"
#include "runtime/scheduling/padding.h"

namespace gpux::embedding {

/// What texts may share a run.
struct TextBatching {
  runtime::BatchLimits limits;  ///< `max_cost` counts tokens, and `max_rows` is 1 where none may
  /// How texts of different lengths are filled up to one; null: only those of one length may. The inputs are those that
  /// SentenceEncoder::prepare() makes.
  std::shared_ptr<const runtime::Padding> padding;
  RunSharing sharing = {};  ///< whether any may, and why
};

/// LoadOptions::batch_axis none rules it out. Batching::exact is tried out on the runtime: a few texts run alone and
/// together, and where a bit differs, or the model fails, none may share a run.
TextBatching find_text_batching(const SentenceEncoder& encoder, const Runtime& runtime);

/// The outputs of texts that share a run, each cut back to what it would have alone. Errors as of Runtime::infer();
/// invalid_model where the outputs are not rows of the inputs.
std::vector<NamedValues> infer_together(const Runtime& runtime, std::span<const NamedValues> items,
                                        const InferOptions& options, const runtime::Padding* padding);

}  // namespace gpux::embedding
