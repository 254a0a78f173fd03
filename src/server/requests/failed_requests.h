#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::server {

/// A request that was answered with an error.
struct FailedRequest {
  std::chrono::system_clock::time_point time;  ///< of the answer; of the last one where several were alike
  std::string method;                          ///< "POST", or "gRPC"
  std::string path;                            ///< without its query
  std::string status;                          ///< "404", "504 in a stream", or gRPC's "NotFound"
  std::string reason;                          ///< the message that the client got
  std::string id;                              ///< X-Request-Id
  double milliseconds = 0;                     ///< from its arrival to its answer
  std::uint64_t count = 1;                     ///< so many in a row that differ in nothing but time and id
};

/// The requests that failed last. Texts that clients sent are cut, so that the memory is bounded. Thread-safe.
class FailedRequests {
 public:
  explicit FailedRequests(std::size_t capacity = 100) : capacity_(capacity) {}

  void add(FailedRequest request);

  /// The oldest first.
  [[nodiscard]] std::vector<FailedRequest> all() const;

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<FailedRequest> requests_;
};

/// The message in the body of an error, in whatever shape its protocol has: "detail", "error" or "error.message". The
/// body itself where it is none of these, cut to a readable length. Pure.
std::string reason_of(std::string_view body);

}  // namespace gpux::server
