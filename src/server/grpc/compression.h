#pragma once

#include <cstdint>

#include <grpcpp/support/byte_buffer.h>

namespace gpux::server {

/// Undoes what the client compressed, by gzip or deflate; leaves alone what it did not. gRPC itself would do so before
/// it looks at the size.
/// Error invalid_input beyond `limit` bytes, and for what cannot be undone.
void decompress(::grpc::ByteBuffer& message, std::uint64_t limit);

}  // namespace gpux::server
