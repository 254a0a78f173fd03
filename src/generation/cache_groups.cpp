#include "generation/cache_groups.h"

#include <algorithm>

namespace gpux::generation {

bool runs_as_is(const GroupRun& run) noexcept {
  if (run.capacity < run.wanted_capacity) return false;
  if (run.rows == run.wanted_rows) return true;
  constexpr std::size_t part = 4;
  const std::size_t spare = std::max<std::size_t>(run.wanted_rows / part, 1);
  return run.tokens == 1 && run.has_room && run.rows <= run.wanted_rows + spare;
}

std::size_t capacity_for(std::size_t tokens) noexcept {
  constexpr std::size_t block = 256;
  return std::max<std::size_t>((tokens + block - 1) / block, 1) * block;
}

bool is_sparse(std::size_t rows, std::size_t used) noexcept {
  return used != 0 && 2 * used < rows;
}

}  // namespace gpux::generation
