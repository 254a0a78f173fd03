#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>

namespace gpux::server {

/// gRPC's status codes by their numbers, as Prometheus interceptors of gRPC write them.
inline constexpr std::array<std::string_view, 17> grpc_code_names{
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

/// Counters of one gRPC method since the start of the server. Thread-safe.
struct GrpcMethodCounts {
  std::string_view service;  ///< "inference.GRPCInferenceService"
  std::string_view method;   ///< "ModelInfer"
  std::string_view type;     ///< "unary", "server_stream", "bidi_stream"

  std::atomic<std::uint64_t> started = 0;
  /// By the number of the status that the client got: an answer that it did not wait for is none.
  std::array<std::atomic<std::uint64_t>, grpc_code_names.size()> ended{};
  std::atomic<std::uint64_t> received = 0;        ///< messages
  std::atomic<std::uint64_t> received_bytes = 0;  ///< of them, as the client sent them
  std::atomic<std::uint64_t> sent = 0;            ///< messages that the client's window and the socket took
  std::atomic<std::uint64_t> sent_bytes = 0;

  /// Calls that have begun and not ended.
  [[nodiscard]] std::uint64_t in_flight() const noexcept {
    std::uint64_t over = 0;
    for (const auto& count : ended) over += count;
    // Read after those that ended, so that none of them is missing.
    return started - over;
  }
};

/// Counters of all methods of a gRPC server. All methods are added before the first call.
class GrpcCounts {
 public:
  /// `path` is "/service/method". It and `type` must outlive this. The result stays where it is.
  GrpcMethodCounts& add(std::string_view path, std::string_view type) {
    GrpcMethodCounts& added = methods_.emplace_back();
    const std::size_t slash = path.rfind('/');
    added.service = path.substr(1, slash - 1);
    added.method = path.substr(slash + 1);
    added.type = type;
    return added;
  }

  [[nodiscard]] const std::deque<GrpcMethodCounts>& methods() const noexcept { return methods_; }

 private:
  std::deque<GrpcMethodCounts> methods_;
};

}  // namespace gpux::server
