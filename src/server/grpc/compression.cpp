#include "server/grpc/compression.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include "gpux/error.h"
#include "server/http/content_coding.h"

// gRPC names this class as the one that may look into a buffer, and leaves it to others to write.
class grpc::internal::GrpcByteBufferPeer {
 public:
  static grpc_compression_algorithm algorithm_of(::grpc::ByteBuffer& buffer) {
    const grpc_byte_buffer* inner = buffer.c_buffer();
    return inner == nullptr ? GRPC_COMPRESS_NONE : inner->data.raw.compression;
  }
};

namespace gpux::server {

bool is_compressed(::grpc::ByteBuffer& message) noexcept {
  return ::grpc::internal::GrpcByteBufferPeer::algorithm_of(message) != GRPC_COMPRESS_NONE;
}

void decompress(::grpc::ByteBuffer& message, std::uint64_t limit, MemoryShare& share,
                const Cancellation& cancellation) {
  http::Framing::Coding coding{};
  switch (::grpc::internal::GrpcByteBufferPeer::algorithm_of(message)) {
    case GRPC_COMPRESS_GZIP:
      coding = http::Framing::Coding::gzip;
      break;
    case GRPC_COMPRESS_DEFLATE:
      coding = http::Framing::Coding::deflate;
      break;
    default:
      return;
  }
  std::vector<::grpc::Slice> packed;
  if (!message.Dump(&packed).ok()) throw Error(ErrorCode::internal, "a message cannot be read");
  http::Inflater inflater(coding);
  constexpr std::size_t piece_bytes = 64 << 10;
  std::vector<std::byte> piece(piece_bytes);
  std::vector<::grpc::Slice> plain;
  std::uint64_t total = 0;
  for (const ::grpc::Slice& slice : packed) {
    std::span<const std::byte> in = std::as_bytes(std::span<const std::uint8_t>(slice.begin(), slice.size()));
    for (;;) {
      cancellation.check();
      const http::Inflater::Step step = inflater.step(in, piece);
      if (step.malformed) throw Error(ErrorCode::invalid_input, "the message is compressed, and not as it says");
      in = in.subspan(step.consumed);
      total += step.produced;
      if (total > limit) {
        throw Error(ErrorCode::invalid_input,
                    fmt::format("the message decompressed has more than the {} bytes that are accepted", limit));
      }
      if (!share.grow(step.produced)) {
        throw Error(ErrorCode::resource_exhausted, "the memory for requests and answers is used up: try later");
      }
      if (step.produced != 0) plain.emplace_back(piece.data(), step.produced);
      // A full piece may leave more behind even where all input is used up.
      if (step.produced < piece.size() && (in.empty() || step.consumed == 0)) break;
    }
  }
  if (!inflater.ended()) throw Error(ErrorCode::invalid_input, "the message is compressed, and its end is missing");
  if (plain.empty()) plain.emplace_back();
  message = ::grpc::ByteBuffer(plain.data(), plain.size());
}

}  // namespace gpux::server
