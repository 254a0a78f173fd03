#pragma once

namespace gpux {

/// Where the addresses of this process are limited (RLIMIT_AS: `ulimit -v`, systemd's LimitAS), its allocator is kept
/// from reserving tens of MiB of them per thread, unless MALLOC_ARENA_MAX says how many arenas it may have. Called by a
/// program before its first thread.
void reserve_few_addresses();

}  // namespace gpux
