#include "provider/placement.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "gpux/error.h"
#include "ort/plugins.h"
#include "provider/gpu_devices.h"
#include "provider/table.h"

namespace gpux::provider {

using Outcome = ProviderAttempt::Outcome;

ort::ProviderAppend to_append(const ProviderReport& report, const ResolvedOptions& options) {
  ort::ProviderAppend append;
  append.options = options.passed;
  append.name = report.ort_name;
  if (report.source != "plugin") {
    const ProviderRow* row = find_row(report.id);
    append.way = row->way;
    append.name = row->append_name;
    return append;
  }
  append.way = ort::ProviderAppend::Way::by_device;
  for (const ort::ProviderDevice& device : ort::provider_devices()) {
    if (device.provider == report.ort_name) append.devices.push_back(device.index);
  }
  const unsigned wanted = options.device.value_or(0);
  if (wanted >= append.devices.size()) {
    throw Error(ErrorCode::provider_unavailable, fmt::format("provider {}: there is no device {}; accepted: {}",
                                                             report.id, wanted, numbered(report.devices)));
  }
  append.devices = {append.devices[wanted]};
  return append;
}

void apply_placement(const std::vector<ort::AssignedNode>& nodes, const ort::SessionLog& log, Verdict& verdict) {
  std::map<std::string, std::uint64_t> count_of;
  for (const ort::AssignedNode& node : nodes) ++count_of[node.provider];
  verdict.node_count = nodes.size();
  verdict.placement_known = true;
  verdict.active.clear();
  for (ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome != Outcome::active) continue;
    attempt.node_count = count_of[attempt.ort_name];
    attempt.node_share =
        nodes.empty() ? 0 : static_cast<double>(attempt.node_count) / static_cast<double>(nodes.size());
    if (attempt.node_count != 0) continue;
    if (nodes.empty()) {
      // The CPU provider computes constants while a model is loaded.
      if (attempt.id == "cpu") continue;
      attempt.outcome = Outcome::no_nodes;
      attempt.reason = "no node is left to run: all results were computed while the model was loaded";
      continue;
    }
    if (log.error.find(attempt.ort_name) != std::string::npos) {
      attempt.outcome = Outcome::failed;
      attempt.reason = "the session gave it none of the model's nodes: " + log.error;
      continue;
    }
    attempt.outcome = Outcome::no_nodes;
    if (attempt.id == "cpu") {
      attempt.outcome = Outcome::not_needed;
      attempt.reason = "every node found a place before it";
    } else if (const auto said =
                   std::find_if(log.remarks.rbegin(), log.remarks.rend(),
                                [&](const ort::Remark& remark) { return remark.provider == attempt.ort_name; });
               said != log.remarks.rend()) {
      // The last one: bodies of loops and branches are looked at before the graph.
      attempt.reason = said->text;
    } else {
      attempt.reason = "it is in the session, but the session gave it none of the model's nodes";
      attempt.remedy = "gpux inspect MODEL --provider " + attempt.id + " shows which operators it takes";
    }
  }
  std::vector<const ProviderAttempt*> active;
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome == Outcome::active) active.push_back(&attempt);
  }
  std::stable_sort(active.begin(), active.end(),
                   [](const ProviderAttempt* a, const ProviderAttempt* b) { return a->node_count > b->node_count; });
  for (const ProviderAttempt* attempt : active) verdict.active.push_back(attempt->id);
}

}  // namespace gpux::provider
