#include "model/run_items.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "gpux/error.h"
#include "pipeline/pipeline.h"

namespace gpux {
namespace {

bool takes_text(const OpenModel& model, std::span<const NamedValues> items) {
  return model.pipeline &&
         std::ranges::any_of(items, [&](const NamedValues& item) { return model.pipeline->takes_text(item); });
}

}  // namespace

NamedValues run_item(const OpenModel& model, const Runtime& runtime, const NamedValues& item,
                     const InferOptions& options) {
  if (takes_text(model, {&item, 1})) return pipeline::infer(*model.pipeline, runtime, item, options);
  return runtime.infer(item, options);
}

std::vector<NamedValues> run_items(const OpenModel& model, const Runtime& runtime, std::span<const NamedValues> items,
                                   const InferOptions& options, std::uint64_t batch_limit) {
  if (!takes_text(model, items)) {
    return runtime.batch_infer(items, options, batch_limit == 0 ? model.settings.batch_limit : batch_limit);
  }
  std::vector<NamedValues> results;
  for (std::size_t i = 0; i < items.size(); ++i) {
    try {
      results.push_back(run_item(model, runtime, items[i], options));
    } catch (const Error& error) {
      throw error.within(fmt::format("item {}", i));
    }
  }
  return results;
}

RunSharing sharing_of(const OpenModel& model, const Runtime& runtime, std::span<const NamedValues> items) {
  using Source = RunSharing::Source;
  if (items.size() < 2) return {false, Source::single_run, "there is one input"};
  if (takes_text(model, items)) return {false, Source::single_run, "each text has a run of its own"};
  if (model.settings.batch_limit == 1) return {false, Source::single_run, "runtime.batch_size is 1"};
  return runtime.run_sharing({.requests = items.size(), .sizes = {}});
}

}  // namespace gpux
