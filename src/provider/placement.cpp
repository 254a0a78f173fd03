#include "provider/placement.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/spelling.h"
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

namespace {

// Whether ONNX Runtime lists the nodes of such a provider.
bool lists_nodes(const ProviderAttempt& attempt) {
  if (attempt.source == "plugin") return true;
  const auto option = [&](std::string_view name) {
    const auto found = std::ranges::find(attempt.options, name, [](const auto& entry) { return entry.first; });
    return found == attempt.options.end() ? std::string() : lower(found->second);
  };
  if (attempt.id == "webgpu") return option("preferredLayout") == "nchw";
  if (attempt.id == "cuda") return option("prefer_nhwc") != "1" && option("prefer_nhwc") != "true";
  return attempt.id != "xnnpack";
}

bool is_in_session(const ProviderAttempt& attempt) {
  return attempt.outcome == Outcome::active;
}

using NodeCounts = std::map<std::string, std::uint64_t>;

NodeCounts counts_of(const std::vector<ort::AssignedNode>& nodes) {
  NodeCounts counts;
  for (const ort::AssignedNode& node : nodes) ++counts[node.provider];
  return counts;
}

void set_not_needed(ProviderAttempt& attempt) {
  attempt.outcome = Outcome::not_needed;
  attempt.reason = "every node found a place before it";
}

void set_no_nodes(ProviderAttempt& attempt) {
  attempt.outcome = Outcome::no_nodes;
  attempt.reason = "it is in the session, but the session gave it none of the model's nodes";
  attempt.remedy = Message("gpux inspect MODEL --provider " + attempt.id + " shows which operators it takes");
}

void apply_doubtful_placement(const std::vector<ort::AssignedNode>& nodes, Verdict& verdict,
                              const PlacementEvidence& evidence) {
  NodeCounts count_of = counts_of(nodes);
  const bool is_one_left_out = std::ranges::any_of(
      verdict.tried, [](const auto& attempt) { return is_in_session(attempt) && !lists_nodes(attempt); });
  std::vector<std::string> left_out;
  for (ProviderAttempt& attempt : verdict.tried) {
    if (!is_in_session(attempt)) continue;
    const bool is_listed = count_of[attempt.ort_name] != 0;
    const bool may_be_left_out = attempt.id != "cpu" && (is_one_left_out ? !lists_nodes(attempt) : nodes.empty());
    if (may_be_left_out) {
      left_out.push_back(attempt.id);
      if (!is_listed && !nodes.empty() && !evidence.uses_other_device) {
        attempt.reason = "ONNX Runtime does not say whether it runs any of the model's nodes";
      }
    } else if (!is_listed) {
      attempt.id == "cpu" ? set_not_needed(attempt) : set_no_nodes(attempt);
    }
  }
  verdict.node_count = 0;
  verdict.placement_known = false;
  verdict.active.clear();
  for (const bool is_cpu : {false, true}) {
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (is_in_session(attempt) && (attempt.id == "cpu") == is_cpu) verdict.active.push_back(attempt.id);
    }
  }
  verdict.notes.emplace_back(
      fmt::format("how many nodes run where is not known: ONNX Runtime {} does not list those of {}",
                  verdict.runtime_version, join(left_out)));
}

}  // namespace

bool may_leave_out_nodes(const std::vector<ort::AssignedNode>& nodes, const Verdict& verdict) {
  return std::ranges::any_of(verdict.tried, [&](const ProviderAttempt& attempt) {
    return is_in_session(attempt) && attempt.id != "cpu" && (nodes.empty() || !lists_nodes(attempt));
  });
}

void apply_placement(const std::vector<ort::AssignedNode>& nodes, const ort::SessionLog& log, Verdict& verdict,
                     const PlacementEvidence& evidence) {
  if (evidence.has_work && may_leave_out_nodes(nodes, verdict)) {
    apply_doubtful_placement(nodes, verdict, evidence);
    return;
  }
  NodeCounts count_of = counts_of(nodes);
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
    if (attempt.id == "cpu") {
      set_not_needed(attempt);
    } else if (const auto said =
                   std::find_if(log.remarks.rbegin(), log.remarks.rend(),
                                [&](const ort::Remark& remark) { return remark.provider == attempt.ort_name; });
               said != log.remarks.rend()) {
      // The last one: bodies of loops and branches are looked at before the graph.
      attempt.outcome = Outcome::no_nodes;
      attempt.reason = said->text;
    } else {
      set_no_nodes(attempt);
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

bool can_lose_device(const Verdict& verdict) {
  return std::ranges::any_of(verdict.tried, [](const ProviderAttempt& attempt) {
    return attempt.outcome == ProviderAttempt::Outcome::active && attempt.id != "cpu";
  });
}

}  // namespace gpux::provider
