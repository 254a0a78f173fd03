#pragma once

#include <cstdint>

#include "server/models/model_table.h"

namespace gpux::server {

/// Evicts models that serve, the least recently used first, but neither `kept` nor pinned ones, until all need no more
/// than the budget (0: no limit). Logs each, and where it is not possible. Under the repository's lock.
void make_room(ModelTable& table, const ModelEntry& kept, std::uint64_t budget_bytes, Aftermath& after);

}  // namespace gpux::server
