#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gpux_cpu {

/// The memory nodes (NUMA) of which a thread may use a processor. `processors`: those of each node as Linux lists
/// them, "0-15,32-47" (sysfs, node/nodeN/cpulist); what is no such list has none. Pure.
std::vector<unsigned> nodes_in_use(const std::map<unsigned, std::string>& processors,
                                   const std::function<bool(unsigned processor)>& is_allowed);

/// Spreads whole pages over the nodes of which the calling thread may use a processor, one after the other, so that
/// threads on all of them read at the sum of the nodes' rates. Does nothing where there is one, where a policy for
/// memory was set, as by numactl, and where the system refuses.
void spread_over_nodes(std::byte* memory, std::size_t bytes) noexcept;

}  // namespace gpux_cpu
