#include "base/address_space.h"

#include <cstdlib>

#include <malloc.h>
#include <sys/resource.h>

namespace gpux {

void reserve_few_addresses() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
#ifdef M_ARENA_MAX
  // Libraries that end the process where there is no memory would meet a space that is full of empty arenas.
  constexpr int max_arenas = 2;
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) ::mallopt(M_ARENA_MAX, max_arenas);
#endif
}

}  // namespace gpux
