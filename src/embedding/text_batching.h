#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/batch_plan.h"
#include "runtime/scheduling/padding.h"

namespace gpux::embedding {

/// The bounds of a run of texts on a device that is not the processor.
inline constexpr runtime::BatchLimits batches_on_devices{.max_rows = 128, .max_cost = 8192};

/// Which texts may share a run.
struct TextSharing {
  runtime::BatchLimits limits;  ///< `max_cost` counts tokens, and `max_rows` is 1 where none may
  /// How texts of different lengths are filled up to one; null: only those of one length may. The inputs are those that
  /// SentenceEncoder::prepare() makes.
  std::shared_ptr<const runtime::Padding> padding;
  RunSharing sharing = {};  ///< whether any may, and why
};

/// Bounds shared runs to the rows that the provider has compiled for, or lets them be filled up where it compiles again
/// for each number of rows; `found.sharing` says so. Pure.
void bound_rows(const Verdict& verdict, TextSharing& found);

/// LoadOptions::batch_axis none rules it out. Else it is tried out on the runtime: a few texts run alone and together,
/// and where a bit differs (TextBatching::exact) or more than the last digits do (TextBatching::throughput), or the
/// model fails, none may share a run.
TextSharing find_text_batching(const SentenceEncoder& encoder, const Runtime& runtime);

/// The outputs of texts that share a run, each cut back to what it would have alone. The run has `filled_rows` rows,
/// where that is more than there are texts. Errors as of Runtime::infer();
/// invalid_model where the outputs are not rows of the inputs.
std::vector<NamedValues> infer_together(const Runtime& runtime, std::span<const NamedValues> items,
                                        const InferOptions& options, const runtime::Padding* padding,
                                        std::int64_t filled_rows = 0);

}  // namespace gpux::embedding
