#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "server/http/message.h"
#include "server/requests/caller.h"

namespace gpux::server {

/// What a client may send. 0: no limit.
struct RequestLimits {
  std::uint64_t requests_per_minute = 0;
  std::uint64_t tokens_per_minute = 0;  ///< that models read and generate
  std::uint64_t tokens_per_day = 0;
  std::uint64_t requests_in_flight = 0;

  [[nodiscard]] bool has_any() const noexcept {
    return requests_per_minute != 0 || tokens_per_minute != 0 || tokens_per_day != 0 || requests_in_flight != 0;
  }

  bool operator==(const RequestLimits&) const = default;
};

/// The limits of all clients.
struct LimitRules {
  RequestLimits each;  ///< of a key that is not listed, and of an address that sends requests without a key
  std::map<std::string, RequestLimits, std::less<>> by_key;  ///< by the names of keys

  [[nodiscard]] const RequestLimits& of(const Caller& caller) const { return of(caller.key); }

  /// `key` empty: without one.
  [[nodiscard]] const RequestLimits& of(std::string_view key) const;
};

enum class LimitKind : std::uint8_t { requests_per_minute, tokens_per_minute, tokens_per_day, requests_in_flight };
inline constexpr std::array<std::string_view, 4> limit_names{"requests_per_minute", "tokens_per_minute",
                                                             "tokens_per_day", "requests_in_flight"};

/// A token bucket by what was taken from it: it fills up evenly, at the rate of its limit.
struct Bucket {
  using Clock = std::chrono::steady_clock;

  double taken = 0;  ///< at `at`, and not yet filled up again
  Clock::time_point at;

  /// At `now`, where `limit` fills up in `period`.
  [[nodiscard]] double taken_at(Clock::time_point now, std::uint64_t limit, std::chrono::seconds period) const;
  void take(double amount, Clock::time_point now, std::uint64_t limit, std::chrono::seconds period);
};

/// What a client has sent.
struct ClientUse {
  Bucket requests, minute_tokens, day_tokens;
  std::uint64_t in_flight = 0;
};

/// Why a request has to wait.
struct LimitRefusal {
  LimitKind limit = LimitKind::requests_per_minute;
  std::uint64_t accepted = 0;         ///< the limit
  std::chrono::milliseconds wait{0};  ///< until the next request is accepted, if nobody else sends one
};

/// Whether one more request may come. A request needs its place in the minute, and one token that is left of each
/// limit: how many it takes is known when it is answered, so the last one before a limit may exceed it. Pure.
std::optional<LimitRefusal> limit_refusal(const ClientUse& use, const RequestLimits& limits,
                                          Bucket::Clock::time_point now);

/// For the client. `who`: "the model 'digits'".
std::string message_of(const LimitRefusal& refusal, std::string_view who);
/// The API key, or the address without one.
std::string message_of(const LimitRefusal& refusal, const Caller& caller);

/// Whole seconds, at least one: for Retry-After.
std::chrono::seconds retry_after(const LimitRefusal& refusal);

/// "[2001:db8::1:2:3:4]" as the network of its client, "[2001:db8::]/64", who has all of its addresses; others as they
/// are.
std::string limited_address(const std::string& address);

/// Counters of a key since the start, or of all requests without one.
struct KeyCounts {
  std::uint64_t requests = 0, tokens = 0, in_flight = 0;
  std::array<std::uint64_t, limit_names.size()> refused{};
};

class RequestLimiter;

/// A request in flight of a client. Ends with end(), or with the object. All members from any thread.
class LimitedRequest {
 public:
  using Clock = Bucket::Clock;

  ~LimitedRequest() { end(); }

  LimitedRequest(const LimitedRequest&) = delete;
  LimitedRequest& operator=(const LimitedRequest&) = delete;

  /// The request took so many tokens more.
  void add_tokens(std::uint64_t count, Clock::time_point now = Clock::now());
  void end();
  /// Adds the fields x-ratelimit-… of OpenAI for the limits that there are.
  void add_headers(http::Headers& headers, Clock::time_point now = Clock::now()) const;

 private:
  friend class RequestLimiter;

  struct Client {
    ClientUse use;
    KeyCounts counts;
  };

  LimitedRequest(std::shared_ptr<RequestLimiter> limiter, std::shared_ptr<Client> client, RequestLimits limits)
      : limiter_(std::move(limiter)), client_(std::move(client)), limits_(limits) {}

  const std::shared_ptr<RequestLimiter> limiter_;
  const std::shared_ptr<Client> client_;
  const RequestLimits limits_;
  bool has_ended_ = false;  // under the limiter's mutex
};

/// Counts what clients send, and holds them to their limits. A client is a key by its name, or an address without one.
/// Of addresses, and of clients that are known by a certificate, it remembers a bounded number each: beyond it, those
/// that come share the limits of one. Owned by a shared pointer. All members from any thread.
class RequestLimiter : public std::enable_shared_from_this<RequestLimiter> {
 public:
  using Clock = Bucket::Clock;

  explicit RequestLimiter(std::size_t max_addresses = std::size_t{1} << 16, std::size_t max_certificates = 4096)
      : max_addresses_(max_addresses), max_certificates_(max_certificates) {}

  /// Counts a request whose header has come, or refuses it.
  std::optional<LimitRefusal> admit(const Caller& caller, const LimitRules& rules,
                                    Clock::time_point now = Clock::now());

  /// A request that admit() has counted is worked on from here; null with a refusal where too many are. Also null, and
  /// no refusal, where nothing is counted: the caller has no key, and no limit applies.
  std::shared_ptr<LimitedRequest> begin(const Caller& caller, const LimitRules& rules,
                                        std::optional<LimitRefusal>& refusal);

  /// By the names of keys and of certificates; "anonymous" for requests without a key, and "cert:" for certificates
  /// beyond the number, if any was counted.
  [[nodiscard]] std::map<std::string, KeyCounts> counts() const;

  /// Forgets what keys have sent that are not among these names, and are not in flight. Certificates stay.
  void keep_keys(const std::set<std::string>& names);

  [[nodiscard]] std::size_t addresses() const;

 private:
  friend class LimitedRequest;
  using Client = LimitedRequest::Client;

  std::shared_ptr<Client> client_of(const Caller& caller, const LimitRules& rules, Clock::time_point now);
  std::shared_ptr<Client> certificate_of(const std::string& name, const LimitRules& rules, Clock::time_point now);
  void forget_idle(const RequestLimits& limits, Clock::time_point now);

  const std::size_t max_addresses_, max_certificates_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Client>> keys_;
  std::map<std::string, std::shared_ptr<Client>> certificates_;
  std::unordered_map<std::string, std::shared_ptr<Client>> addresses_;
  std::shared_ptr<Client> others_ = std::make_shared<Client>();  // addresses beyond the number
  KeyCounts anonymous_;                                          // of all addresses; in flight: see counts()
  Clock::time_point forgot_, forgot_certificates_;
};

}  // namespace gpux::server
