#include "server/requests/request_trace.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "server/http/completed_exchange.h"
#include "server/requests/browser_access.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int first_error_status = 400;

bool is_hexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

// Unique in this process by the count, and among processes by the random part.
std::uint64_t next_number() {
  static const std::uint64_t start = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32U) ^ device();
  }();
  static std::atomic<std::uint64_t> count = 0;
  // An odd multiplier goes through all numbers before one comes again.
  return start + 0x9e3779b97f4a7c15U * ++count;
}

std::string hexadecimal(std::uint64_t number) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) {
    *digit = "0123456789abcdef"[number & 15U];
  }
  return text;
}

bool is_usable_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
}

class Traced : public http::CompletedExchange {
 public:
  Traced(std::shared_ptr<http::Exchange> inner, TraceOptions options)
      : CompletedExchange(std::move(inner)), options_(std::move(options)) {
    const http::Headers& headers = CompletedExchange::request().headers;
    names_ = name_request(headers["X-Request-Id"], headers.find("traceparent"));
  }

 private:
  void complete(http::Response& response) const override {
    response.deadline = options_.deadline.time();
    response.headers.add("X-Request-Id", names_.id);
    if (!names_.traceparent.empty()) response.headers.add("traceparent", names_.traceparent);
    if (options_.page_may_read) allow_page_to_read(response, request().headers["Origin"]);
    // The transport ignores a later one, as a deadline gives.
    if (is_answered_.exchange(true, std::memory_order_relaxed)) return;
    const http::Request& asked = request();
    const bool is_failure = options_.failures != nullptr && response.status >= first_error_status;
    if (!options_.log_request && !is_failure) return;
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - asked.arrived).count();
    if (is_failure) {
      options_.failures->add({.time = std::chrono::system_clock::now(),
                              .method = asked.method,
                              .path = asked.path,
                              .status = std::to_string(response.status),
                              .reason = reason_of(response.text),
                              .id = names_.id,
                              .milliseconds = milliseconds});
    }
    if (!options_.log_request) return;
    std::vector<log::Field> fields{{"method", asked.method},
                                   {"path", asked.path},
                                   {"status", std::to_string(response.status)},
                                   {"bytes", std::to_string(response.body_bytes())},
                                   {"ms", fmt::format("{:.3f}", milliseconds)},
                                   {"peer", asked.peer ? *asked.peer : std::string("-")},
                                   {"request", names_.id}};
    if (!names_.traceparent.empty()) fields.push_back({"trace", names_.traceparent});
    if (const auto verdict = response.headers.find("X-Gpux-Verdict")) {
      fields.push_back({"ran_on", std::string(*verdict)});
    }
    log::write(log::Level::info, "answered", fields);
  }

  TraceOptions options_;
  RequestNames names_;
  mutable std::atomic<bool> is_answered_ = false;
};

}  // namespace

std::optional<TraceParent> read_traceparent(std::string_view text) {
  // Later versions may append fields; "ff" is forbidden.
  if (text.size() < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  if (!is_hexadecimal(version) || version == "ff") return std::nullopt;
  if (text.size() > 55 && (version == "00" || text[55] != '-')) return std::nullopt;
  TraceParent context{std::string(text.substr(3, 32)), std::string(text.substr(36, 16)),
                      std::string(text.substr(53, 2))};
  const bool valid = is_hexadecimal(context.trace) && is_hexadecimal(context.parent) && is_hexadecimal(context.flags) &&
                     !is_zero(context.trace) && !is_zero(context.parent);
  return valid ? std::optional(std::move(context)) : std::nullopt;
}

RequestNames name_request(std::string_view given_id, std::optional<std::string_view> traceparent) {
  RequestNames names{.id = is_usable_id(given_id) ? std::string(given_id) : hexadecimal(next_number()),
                     .traceparent = {}};
  if (traceparent) {
    if (const auto context = read_traceparent(*traceparent)) {
      names.traceparent = fmt::format("00-{}-{}-{}", context->trace, hexadecimal(next_number() | 1U), context->flags);
    }
  }
  return names;
}

std::shared_ptr<http::Exchange> trace(std::shared_ptr<http::Exchange> exchange, TraceOptions options) {
  return std::make_shared<Traced>(std::move(exchange), std::move(options));
}

}  // namespace gpux::server
