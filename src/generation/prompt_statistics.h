#pragma once

#include <cstdint>

namespace gpux::generation {

/// Counts since a store was made, and what it has now.
struct PromptStoreStatistics {
  std::uint64_t files = 0;  ///< that this model can use
  std::uint64_t bytes = 0;  ///< of these files
  std::uint64_t hits = 0;   ///< prompts that a file had more of than the memory
  std::uint64_t misses = 0;
  std::uint64_t written_files = 0;
  std::uint64_t skipped_writes = 0;  ///< for the limit of those on their way, or because the folder takes none
};

}  // namespace gpux::generation
