#pragma once

#include <cstdint>

#include <grpcpp/support/byte_buffer.h>

#include "base/cancellation.h"
#include "base/memory_budget.h"

namespace gpux::server {

/// Undoes what the client compressed, by gzip or deflate; leaves alone what it did not. gRPC itself would do so before
/// it looks at the size.
/// `share` grows by what it comes to. Error invalid_input beyond `limit` bytes, and for what cannot be undone;
/// resource_exhausted where the share cannot grow; those of the cancellation, which is asked every 64 KiB.
void decompress(::grpc::ByteBuffer& message, std::uint64_t limit, MemoryShare& share, const Cancellation& cancellation);

/// Whether the client compressed it.
bool is_compressed(::grpc::ByteBuffer& message) noexcept;

}  // namespace gpux::server
