#pragma once

#include <cstddef>
#include <memory>

namespace gpux_cpu {

/// Memory for data that is read repeatedly, aligned to 64 bytes, next to earlier allocations and in large pages if the
/// system has them: small pages would be spread over the caches by chance, which is up to a tenth slower. On a machine
/// of several memory nodes it is spread over those in use (memory_nodes.h).
/// Any thread may call. Throws std::bad_alloc.
std::shared_ptr<std::byte> allocate_in_large_pages(std::size_t bytes);

}  // namespace gpux_cpu
