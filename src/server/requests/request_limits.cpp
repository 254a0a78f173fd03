#include "server/requests/request_limits.h"

#include <algorithm>
#include <cmath>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace gpux::server {
namespace {

using Clock = Bucket::Clock;

constexpr std::chrono::seconds minute{60}, day{24 * 3600};
constexpr std::string_view anonymous = "anonymous";

// Until `needed` is left of the limit.
std::optional<std::chrono::milliseconds> wait_for(const Bucket& bucket, std::uint64_t limit,
                                                  std::chrono::seconds period, Clock::time_point now) {
  if (limit == 0) return std::nullopt;
  const double missing = bucket.taken_at(now, limit, period) + 1 - static_cast<double>(limit);
  // Of the arithmetic of numbers with a fraction.
  constexpr double rounding = 1e-6;
  if (missing <= rounding) return std::nullopt;
  const double seconds = missing * static_cast<double>(period.count()) / static_cast<double>(limit);
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000 - rounding)));
}

bool is_idle(const ClientUse& use, const RequestLimits& limits, Clock::time_point now) {
  const auto is_full = [&](const Bucket& bucket, std::uint64_t limit, std::chrono::seconds period) {
    return limit == 0 || bucket.taken_at(now, limit, period) <= 0;
  };
  return use.in_flight == 0 && is_full(use.requests, limits.requests_per_minute, minute) &&
         is_full(use.minute_tokens, limits.tokens_per_minute, minute) &&
         is_full(use.day_tokens, limits.tokens_per_day, day);
}

void add(KeyCounts& sum, const KeyCounts& counts) {
  sum.requests += counts.requests;
  sum.tokens += counts.tokens;
  for (std::size_t i = 0; i < sum.refused.size(); ++i) sum.refused.at(i) += counts.refused.at(i);
}

// As OpenAI writes it: "12ms", "1s", "6m0s".
std::string duration_text(double seconds) {
  const auto milliseconds = static_cast<std::uint64_t>(std::ceil(seconds * 1000));
  if (milliseconds < 1000) return fmt::format("{}ms", milliseconds);
  const std::uint64_t whole = (milliseconds + 999) / 1000;
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{}s", whole / 60, whole % 60);
  return fmt::format("{}h{}m{}s", whole / 3600, whole / 60 % 60, whole % 60);
}

void add_bucket(http::Headers& headers, std::string_view of, const Bucket& bucket, std::uint64_t limit,
                std::chrono::seconds period, Clock::time_point now) {
  const double taken = bucket.taken_at(now, limit, period), all = static_cast<double>(limit);
  headers.add(fmt::format("x-ratelimit-limit-{}", of), std::to_string(limit));
  headers.add(fmt::format("x-ratelimit-remaining-{}", of),
              std::to_string(static_cast<std::uint64_t>(std::max(all - taken, 0.0))));
  headers.add(fmt::format("x-ratelimit-reset-{}", of),
              duration_text(taken * static_cast<double>(period.count()) / all));
}

}  // namespace

const RequestLimits& LimitRules::of(std::string_view key) const {
  if (key.empty()) return each;
  const auto found = by_key.find(key);
  return found == by_key.end() ? each : found->second;
}

double Bucket::taken_at(Clock::time_point now, std::uint64_t limit, std::chrono::seconds period) const {
  if (taken <= 0 || now <= at) return std::max(taken, 0.0);
  const double seconds = std::chrono::duration<double>(now - at).count();
  return std::max(taken - seconds * static_cast<double>(limit) / static_cast<double>(period.count()), 0.0);
}

void Bucket::take(double amount, Clock::time_point now, std::uint64_t limit, std::chrono::seconds period) {
  taken = taken_at(now, limit, period) + amount;
  at = std::max(now, at);
}

std::optional<LimitRefusal> limit_refusal(const ClientUse& use, const RequestLimits& limits, Clock::time_point now) {
  if (limits.requests_in_flight != 0 && use.in_flight >= limits.requests_in_flight) {
    return LimitRefusal{
        .limit = LimitKind::requests_in_flight, .accepted = limits.requests_in_flight, .wait = std::chrono::seconds(1)};
  }
  // The one that takes longest.
  std::optional<LimitRefusal> longest;
  const auto check = [&](LimitKind kind, const Bucket& bucket, std::uint64_t limit, std::chrono::seconds period) {
    const auto wait = wait_for(bucket, limit, period, now);
    if (wait && (!longest || *wait > longest->wait))
      longest = LimitRefusal{.limit = kind, .accepted = limit, .wait = *wait};
  };
  check(LimitKind::requests_per_minute, use.requests, limits.requests_per_minute, minute);
  check(LimitKind::tokens_per_minute, use.minute_tokens, limits.tokens_per_minute, minute);
  check(LimitKind::tokens_per_day, use.day_tokens, limits.tokens_per_day, day);
  return longest;
}

std::chrono::seconds retry_after(const LimitRefusal& refusal) {
  return std::max(std::chrono::ceil<std::chrono::seconds>(refusal.wait), std::chrono::seconds(1));
}

std::string message_of(const LimitRefusal& refusal, const Caller& caller) {
  return message_of(refusal, caller.key.empty() ? fmt::format("the address {}", caller.address)
                                                : fmt::format("the API key '{}'", caller.key));
}

std::string message_of(const LimitRefusal& refusal, std::string_view who) {
  const auto seconds = retry_after(refusal).count();
  switch (refusal.limit) {
    case LimitKind::requests_in_flight:
      return fmt::format("{} has {} requests in flight, and may have no more: retry when one has ended", who,
                         refusal.accepted);
    case LimitKind::requests_per_minute:
      return fmt::format("{} may send {} requests per minute: retry in {} s", who, refusal.accepted, seconds);
    case LimitKind::tokens_per_minute:
      return fmt::format("{} may use {} tokens per minute: retry in {} s", who, refusal.accepted, seconds);
    case LimitKind::tokens_per_day:
      break;
  }
  return fmt::format("{} may use {} tokens per day: retry in {} s", who, refusal.accepted, seconds);
}

std::string limited_address(const std::string& address) {
  if (!address.starts_with('[') || !address.ends_with(']')) return address;
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, address.substr(1, address.size() - 2).c_str(), &parsed) != 1) return address;
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) return address;
  constexpr std::size_t network_bytes = 8;
  std::fill(std::begin(parsed.s6_addr) + network_bytes, std::end(parsed.s6_addr), std::uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &parsed, text.data(), text.size());
  return fmt::format("[{}]/64", text.data());
}

void LimitedRequest::add_tokens(std::uint64_t count, Clock::time_point now) {
  if (count == 0) return;
  const std::lock_guard lock(limiter_->mutex_);
  const auto amount = static_cast<double>(count);
  ClientUse& use = client_->use;
  if (limits_.tokens_per_minute != 0) use.minute_tokens.take(amount, now, limits_.tokens_per_minute, minute);
  if (limits_.tokens_per_day != 0) use.day_tokens.take(amount, now, limits_.tokens_per_day, day);
  client_->counts.tokens += count;
}

void LimitedRequest::end() {
  const std::lock_guard lock(limiter_->mutex_);
  if (has_ended_) return;
  has_ended_ = true;
  --client_->use.in_flight;
}

void LimitedRequest::add_headers(http::Headers& headers, Clock::time_point now) const {
  if (!limits_.has_any()) return;
  const std::lock_guard lock(limiter_->mutex_);
  const ClientUse& use = client_->use;
  if (limits_.requests_per_minute != 0) {
    add_bucket(headers, "requests", use.requests, limits_.requests_per_minute, minute, now);
  }
  if (limits_.tokens_per_minute != 0) {
    add_bucket(headers, "tokens", use.minute_tokens, limits_.tokens_per_minute, minute, now);
  } else if (limits_.tokens_per_day != 0) {
    add_bucket(headers, "tokens", use.day_tokens, limits_.tokens_per_day, day, now);
  }
}

// Under the mutex.
void RequestLimiter::forget_idle(const RequestLimits& limits, Clock::time_point now) {
  constexpr std::chrono::seconds interval{1};
  if (now - forgot_ < interval) return;
  forgot_ = now;
  std::erase_if(addresses_, [&](const auto& entry) {
    if (!is_idle(entry.second->use, limits, now)) return false;
    add(anonymous_, entry.second->counts);
    return true;
  });
}

// Under the mutex.
std::shared_ptr<LimitedRequest::Client> RequestLimiter::certificate_of(const std::string& name, const LimitRules& rules,
                                                                       Clock::time_point now) {
  constexpr std::chrono::seconds interval{1};
  if (const auto found = certificates_.find(name); found != certificates_.end()) return found->second;
  if (certificates_.size() >= max_certificates_ && now - forgot_certificates_ >= interval) {
    forgot_certificates_ = now;
    std::erase_if(certificates_, [&](const auto& entry) {
      return entry.first != certificate_prefix && is_idle(entry.second->use, rules.of(entry.first), now);
    });
  }
  const std::string own = certificates_.size() < max_certificates_ ? name : std::string(certificate_prefix);
  std::shared_ptr<Client>& client = certificates_[own];
  if (client == nullptr) client = std::make_shared<Client>();
  return client;
}

// Under the mutex.
std::shared_ptr<LimitedRequest::Client> RequestLimiter::client_of(const Caller& caller, const LimitRules& rules,
                                                                  Clock::time_point now) {
  if (caller.key.starts_with(certificate_prefix)) return certificate_of(caller.key, rules, now);
  if (!caller.key.empty()) {
    std::shared_ptr<Client>& client = keys_[caller.key];
    if (client == nullptr) client = std::make_shared<Client>();
    return client;
  }
  const std::string address = limited_address(caller.address);
  if (const auto found = addresses_.find(address); found != addresses_.end()) return found->second;
  if (addresses_.size() >= max_addresses_) forget_idle(rules.each, now);
  if (addresses_.size() >= max_addresses_) return others_;
  return addresses_.emplace(address, std::make_shared<Client>()).first->second;
}

std::optional<LimitRefusal> RequestLimiter::admit(const Caller& caller, const LimitRules& rules,
                                                  Clock::time_point now) {
  const RequestLimits& limits = rules.of(caller);
  if (caller.key.empty() && !limits.has_any()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Client> client = client_of(caller, rules, now);
  if (const auto refusal = limit_refusal(client->use, limits, now)) {
    ++client->counts.refused.at(static_cast<std::size_t>(refusal->limit));
    return refusal;
  }
  ++client->counts.requests;
  if (limits.requests_per_minute != 0) client->use.requests.take(1, now, limits.requests_per_minute, minute);
  return std::nullopt;
}

std::shared_ptr<LimitedRequest> RequestLimiter::begin(const Caller& caller, const LimitRules& rules,
                                                      std::optional<LimitRefusal>& refusal) {
  const RequestLimits& limits = rules.of(caller);
  if (caller.key.empty() && !limits.has_any()) return nullptr;
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Client> client = client_of(caller, rules, now);
  const RequestLimits of_flight{.requests_in_flight = limits.requests_in_flight};
  refusal = limit_refusal(client->use, of_flight, now);
  if (refusal) {
    ++client->counts.refused.at(static_cast<std::size_t>(refusal->limit));
    return nullptr;
  }
  ++client->use.in_flight;
  return std::shared_ptr<LimitedRequest>(new LimitedRequest(shared_from_this(), std::move(client), limits));
}

std::map<std::string, KeyCounts> RequestLimiter::counts() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, KeyCounts> all;
  for (const auto* const named : {&keys_, &certificates_}) {
    for (const auto& [name, client] : *named) {
      KeyCounts& counts = all[name] = client->counts;
      counts.in_flight = client->use.in_flight;
    }
  }
  KeyCounts without = anonymous_;
  const auto add_client = [&](const Client& client) {
    add(without, client.counts);
    without.in_flight += client.use.in_flight;
  };
  for (const auto& [address, client] : addresses_) add_client(*client);
  add_client(*others_);
  const bool has_refused = std::ranges::any_of(without.refused, [](std::uint64_t count) { return count != 0; });
  if (without.requests != 0 || has_refused) all.emplace(anonymous, without);
  return all;
}

void RequestLimiter::keep_keys(const std::set<std::string>& names) {
  const std::lock_guard lock(mutex_);
  std::erase_if(keys_,
                [&](const auto& entry) { return !names.contains(entry.first) && entry.second->use.in_flight == 0; });
}

std::size_t RequestLimiter::addresses() const {
  const std::lock_guard lock(mutex_);
  return addresses_.size();
}

}  // namespace gpux::server
