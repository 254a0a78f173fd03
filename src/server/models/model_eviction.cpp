#include "server/models/model_eviction.h"

#include "base/log.h"

namespace gpux::server {

void make_room(ModelTable& table, const ModelEntry& kept, std::uint64_t budget_bytes, Aftermath& after) {
  if (budget_bytes == 0) return;
  for (;;) {
    std::uint64_t total = 0;
    ModelEntry* oldest = nullptr;
    for (auto& [name, versions] : table.models()) {
      for (auto& [version, entry] : versions) {
        if (!is_serving(entry.state)) continue;
        total += entry.memory_bytes;
        if (&entry == &kept || entry.source.pinned) continue;
        if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
      }
    }
    if (total <= budget_bytes) return;
    if (oldest == nullptr) {
      log::warning("the models that must stay need {} bytes, the budget is {}", total, budget_bytes);
      return;
    }
    log::info("{} is unloaded to make room", label_of(oldest->source));
    oldest->apply(ModelEvent::eviction, after);
    oldest->reason = "unloaded to make room; the next request loads it again";
  }
}

}  // namespace gpux::server
