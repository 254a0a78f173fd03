#pragma once

#include <string>
#include <vector>

#include "gpux/provider_manager.h"
#include "ort/session.h"
#include "provider/options.h"

namespace gpux::provider {

/// How a chosen provider joins a session of the open core. Error provider_unavailable where `options.device` names a
/// device that it has not.
ort::ProviderAppend to_append(const ProviderReport& report, const ResolvedOptions& options);

/// What is known of a session beside the nodes that it lists.
struct PlacementEvidence {
  bool has_work = false;           ///< onnx::InputFlow::reaches_outputs: it has nodes, whether it lists them or not
  bool uses_other_device = false;  ///< ort::Session::uses_other_device(): a provider that is no plugin has nodes
};

/// Whether the list may leave nodes out, so that has_work is to be found: it is empty, though there are other providers
/// than the CPU's; or a provider of the session is one whose nodes ONNX Runtime does not list, since it changes their
/// layout to NHWC before it places them. `tried` of the verdict as for apply_placement(). Pure.
bool may_leave_out_nodes(const std::vector<ort::AssignedNode>& nodes, const Verdict& verdict);

/// Whether there is a device to lose: a provider other than the CPU's is in the session. Pure.
bool can_lose_device(const Verdict& verdict);

/// Writes into the verdict what the session reports: nodes of each provider, who is active, who got nothing.
/// A provider that got nothing has failed where `log` holds an error that names it; what it said of itself is its
/// reason. `tried` of the verdict holds the attempts, those in the session with outcome active.
/// Where the list may leave nodes out of a session that has some, placement_known is false and a note says so; active
/// are those that are listed, and those whose nodes may be left out. One of these that nothing shows to have any has a
/// reason nevertheless.
void apply_placement(const std::vector<ort::AssignedNode>& nodes, const ort::SessionLog& log, Verdict& verdict,
                     const PlacementEvidence& evidence = {});

}  // namespace gpux::provider
