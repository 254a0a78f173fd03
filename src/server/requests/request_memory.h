#pragma once

#include <cstdint>

namespace gpux::server {

/// Memory limit of all requests and answers together: 1 GiB, or half of the machine's memory where that is less, and
/// room for four times the largest body. Error usage where the machine has less: bodies of that size could not be
/// served.
std::uint64_t request_memory_bytes(std::uint64_t max_body_bytes, std::uint64_t usable_bytes);

}  // namespace gpux::server
