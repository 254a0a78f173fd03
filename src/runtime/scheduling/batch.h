#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/tensor.h"
#include "runtime/scheduling/padding.h"

namespace gpux {
class Runtime;
}

namespace gpux::runtime {

/// Items that share a run: indices in order, and how many rows each has.
struct BatchGroup {
  std::vector<std::size_t> items;
  std::vector<std::int64_t> rows;
  std::int64_t filler_rows = 0;  ///< behind those of several items: copies of the first row, cut off from the results

  [[nodiscard]] std::int64_t own_rows() const noexcept;
};

/// Whether the dimension's name tells it from others: it has one, and no converter made it up for want of a name, as
/// tf2onnx ("unk__12"), Paddle ("DynamicDimension.3") and torch.onnx ("Gemmoutput_dim_0") do. Pure.
bool has_telling_name(const Dimension& dimension);

/// Whether the signature permits that several items share a run: every input and output is a tensor whose first
/// dimension is free, and those of them with a telling name carry the same. That they may is a matter of
/// Runtime::run_sharing(): the first axis of such a model may be time, nodes or anything else.
bool signature_permits_sharing(const Signature& signature);

/// The first size that all inputs of the item share, if they have one, have whole bytes per row and have an element.
std::optional<std::int64_t> shared_rows(const NamedValues& item);

/// Cuts items into runs. Items share one where names, types and all sizes but the first agree, neighbours first, up to
/// `row_limit` rows (0: no limit). Pure. Each item's inputs must all have the same first size, else it goes alone.
std::vector<BatchGroup> plan_batches(std::span<const NamedValues> items, std::uint64_t row_limit);

/// The items of a group, one after another along the first dimension. With padding their sizes may differ as of
/// can_be_padded(): each is the largest there is, and what is shorter is filled up behind its own values.
NamedValues concatenate(std::span<const NamedValues> items, const BatchGroup& group, const Padding* padding = nullptr);

/// The results of a group's run, cut back; numeric tensors share its memory where all of a row is kept.
/// With padding, sizes that carry the name of one that differs among `items` (those that were joined) are cut to what
/// the item has of it; others stay.
/// Empty where an output's first dimension is not the group's rows, or one to be cut is not as long as the inputs were
/// made: the model's batch is not what its signature says.
std::vector<NamedValues> split(const NamedValues& results, const BatchGroup& group,
                               std::span<const NamedValues> items = {}, const Padding* padding = nullptr);

/// Runs the items in groups of up to `row_limit` rows, without asking whether they may share runs; one by one where
/// a group's run fails or has other outputs than its rows. Errors of an item alone, as "item 3: …".
/// `filled_rows`: that a group of fewer rows, but several items, is filled up to.
std::vector<NamedValues> infer_in_groups(const Runtime& runtime, std::span<const NamedValues> items,
                                         const InferOptions& options, std::uint64_t row_limit,
                                         std::int64_t filled_rows = 0);

}  // namespace gpux::runtime
