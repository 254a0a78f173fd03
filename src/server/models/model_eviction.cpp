#include "server/models/model_eviction.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "base/memory_size.h"
#include "server/models/model_table.h"

namespace gpux::server {
namespace {

// What a model takes of one kind of memory.
using BytesOf = std::function<std::uint64_t(const ModelEntry&)>;

std::uint64_t bytes_on(const ModelEntry& entry, const std::string& device) {
  std::uint64_t bytes = 0;
  for (const DeviceUse& use : entry.model->device_uses()) {
    if (use.key() == device) bytes += use.bytes;
  }
  return bytes;
}

bool generates_text(const ModelEntry& entry) {
  return entry.model->engine() != nullptr;
}

// `cache_bytes`: are taken as long as one of the models generates text.
void make_room_in(ModelTable& table, const ModelEntry& kept, const std::string& memory, const BytesOf& bytes_of,
                  std::uint64_t budget_bytes, std::uint64_t cache_bytes, TransitionEffects& after) {
  for (;;) {
    std::uint64_t total = 0;
    bool has_caches = false;
    ModelEntry* oldest = nullptr;
    for (auto& [name, versions] : table.models()) {
      for (auto& [version, entry] : versions) {
        if (!is_serving(entry.state)) continue;
        const std::uint64_t bytes = bytes_of(entry);
        total += bytes;
        has_caches = has_caches || (cache_bytes != 0 && generates_text(entry));
        if (&entry == &kept || entry.source.pinned || bytes == 0) continue;
        if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
      }
    }
    if (has_caches) total += cache_bytes;
    if (total <= budget_bytes) return;
    if (oldest == nullptr) {
      log::warning("the models that must stay need {} of {}, the budget is {}", format_bytes(total), memory,
                   format_bytes(budget_bytes));
      return;
    }
    log::info("{} is unloaded to make room in {}", label_of(oldest->source), memory);
    oldest->apply(ModelEvent::eviction, after);
    oldest->reason = "unloaded to make room; the next request loads it again";
  }
}

}  // namespace

void make_room(ModelTable& table, const ModelEntry& kept, const ModelBudget& budget, TransitionEffects& after) {
  if (budget.memory_bytes != 0) {
    make_room_in(table, kept, "memory", std::mem_fn(&ModelEntry::memory_bytes), budget.memory_bytes, budget.cache_bytes,
                 after);
  }
  if (budget.device_memory_bytes == 0 || !kept.model) return;
  // Only its own devices can have become too full.
  const std::span<const DeviceUse> uses = kept.model->device_uses();
  for (const DeviceUse& use : uses) {
    const std::string key = use.key();
    const auto bytes_of = [&](const ModelEntry& entry) { return bytes_on(entry, key); };
    make_room_in(table, kept, fmt::format("the memory of {} device {}", use.provider, use.device.index), bytes_of,
                 budget.device_memory_bytes, 0, after);
  }
}

}  // namespace gpux::server
