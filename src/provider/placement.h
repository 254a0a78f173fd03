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

/// Writes into the verdict what the session reports: nodes of each provider, who is active, who got nothing.
/// A provider that got nothing has failed where `log` holds an error that names it; what it said of itself is its
/// reason. `tried` of the verdict holds the attempts, those in the session with outcome active.
void apply_placement(const std::vector<ort::AssignedNode>& nodes, const ort::SessionLog& log, Verdict& verdict);

}  // namespace gpux::provider
