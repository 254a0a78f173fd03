#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "registry/http/client.h"
#include "server/telemetry/telemetry_settings.h"

namespace gpux::server {

/// Sends messages to a receiver of OTLP over HTTP. One thread at a time, but for stop().
class OtlpConnection {
 public:
  /// `signal`: "traces", "metrics"; for the log.
  OtlpConnection(OtlpTarget target, std::string_view signal);

  /// Sends a message of protobuf with `count` items, again as the receiver and the network allow it. Returns how many
  /// of them the receiver took. The log says it once if it takes none, and once when it does again.
  std::uint64_t send(const std::string& message, std::uint64_t count);

  /// send() ends early; from any thread.
  void stop() { stop_.request_stop(); }

 private:
  void note(const std::string& problem);

  OtlpTarget target_;
  std::string signal_;
  std::stop_source stop_;
  registry::Client client_;
  bool is_failing_ = false;
};

}  // namespace gpux::server
