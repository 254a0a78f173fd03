#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpux/run_sharing.h"
#include "gpux/runtime.h"
#include "model/open_model.h"

namespace gpux {

/// Runs one item: its texts are tokenized where the model reads texts. Errors as of Runtime::infer().
[[nodiscard]] NamedValues run_item(const OpenModel& model, const Runtime& runtime, const NamedValues& item,
                                   const InferOptions& options);

/// Runs a list of items: each alone where one has texts, else as Runtime::batch_infer(). The results are in the order
/// of the items. `batch_limit`: maximum of rows in a run that items share; 0: runtime.batch_size of gpux.yml, else
/// Runtime's. The error of an item names it: "item 3".
[[nodiscard]] std::vector<NamedValues> run_items(const OpenModel& model, const Runtime& runtime,
                                                 std::span<const NamedValues> items, const InferOptions& options,
                                                 std::uint64_t batch_limit = 0);

/// Whether run_items() shares runs of these, and why.
[[nodiscard]] RunSharing sharing_of(const OpenModel& model, const Runtime& runtime, std::span<const NamedValues> items);

}  // namespace gpux
