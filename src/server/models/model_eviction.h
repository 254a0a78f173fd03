#pragma once

#include <cstdint>

namespace gpux::server {

class ModelTable;
struct TransitionEffects;
struct ModelEntry;

/// How much the loaded models may take together.
struct ModelBudget {
  std::uint64_t memory_bytes = 0;         ///< of the host's memory; 0: no limit
  std::uint64_t cache_bytes = 0;          ///< of these, what keys and values of all models that generate text may take
  std::uint64_t device_memory_bytes = 0;  ///< of the memory of each device; 0: no limit
};

/// Evicts models that serve, the least recently used first, but neither `kept` nor pinned ones, nor any that takes
/// nothing of what is short, until all need no more than the budget. Logs each, and where it is not possible. Under the
/// repository's lock.
void make_room(ModelTable& table, const ModelEntry& kept, const ModelBudget& budget, TransitionEffects& after);

}  // namespace gpux::server
