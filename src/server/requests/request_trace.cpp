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
      : CompletedExchange(std::move(inner)), options_(std::move(options)), figures_(options_.figures) {
    const http::Headers& headers = CompletedExchange::request().headers;
    names_ = options_.names ? *options_.names : name_request(headers["X-Request-Id"], headers.find("traceparent"));
    if (!options_.spans) return;
    // The span that is recorded is the one in the answer to the client.
    if (!names_.traceparent.empty()) names_.traceparent = options_.spans->context().traceparent();
    options_.spans->set("gpux.request.id", names_.id);
  }

  void broken(int status, const Error& error) override {
    broken_status_ = status;
    if (options_.spans) options_.spans->fail(error.message());
    // The client has left, or the server shuts down.
    if (options_.failures == nullptr || error.code() == ErrorCode::interrupted) return;
    keep(fmt::format("{} in a stream", status), error.message());
  }

 private:
  void ends(int status) override {
    if (options_.spans) options_.spans->end(http_end(status));
    if (options_.limited) options_.limited->end();
    if (RouteFigures* figures = figures_.exchange(nullptr)) {
      const int broken = broken_status_;
      figures->add(options_.method, options_.route, broken == 0 ? status : broken, Clock::now() - request().arrived,
                   options_.spans ? &options_.spans->context() : nullptr);
    }
  }

  void complete(http::Response& response) const override {
    response.deadline = options_.deadline.time();
    response.headers.add("X-Request-Id", names_.id);
    if (!names_.traceparent.empty()) response.headers.add("traceparent", names_.traceparent);
    if (options_.limited) options_.limited->add_headers(response.headers);
    if (options_.page_may_read) allow_page_to_read(response, request().headers["Origin"]);
    // The transport ignores a later one, as a deadline gives.
    if (is_answered_.exchange(true, std::memory_order_relaxed)) return;
    const auto verdict = response.headers.find("X-Gpux-Verdict");
    if (verdict && options_.spans) options_.spans->set("gpux.verdict", std::string(*verdict));
    const http::Request& asked = request();
    const bool is_error = response.status >= first_error_status;
    const bool is_failure = options_.failures != nullptr && is_error;
    const bool is_logged = options_.log_request && (is_error || options_.log_successes);
    if (!is_logged && !is_failure) return;
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - asked.arrived).count();
    if (is_failure) keep(std::to_string(response.status), reason_of(response.text));
    if (!is_logged) return;
    std::vector<log::Field> fields{{"method", asked.method},
                                   {"path", asked.path},
                                   {"status", std::to_string(response.status)},
                                   {"bytes", std::to_string(response.body_bytes())},
                                   {"ms", fmt::format("{:.3f}", milliseconds)},
                                   {"peer", asked.peer ? *asked.peer : std::string("-")},
                                   {"request", names_.id}};
    if (options_.spans) {
      fields.push_back({"trace", options_.spans->context().traceparent()});
    } else if (!names_.traceparent.empty()) {
      fields.push_back({"trace", names_.traceparent});
    }
    if (verdict) fields.push_back({"ran_on", std::string(*verdict)});
    log::write(log::Level::info, "answered", fields);
  }

  void keep(std::string status, std::string reason) const {
    const http::Request& asked = request();
    options_.failures->add(
        {.time = std::chrono::system_clock::now(),
         .method = asked.method,
         .path = asked.path,
         .status = std::move(status),
         .reason = std::move(reason),
         .id = names_.id,
         .milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - asked.arrived).count()});
  }

  TraceOptions options_;
  RequestNames names_;
  mutable std::atomic<bool> is_answered_ = false;
  std::atomic<RouteFigures*> figures_;  // null once they have the answer
  std::atomic<int> broken_status_ = 0;  // of the error that ended a stream; 0: none did
};

}  // namespace

RequestNames name_request(std::string_view given_id, std::optional<std::string_view> traceparent) {
  RequestNames names{.id = is_usable_id(given_id) ? std::string(given_id) : hexadecimal(next_number()),
                     .traceparent = {}};
  if (traceparent) {
    if (auto context = read_span_context(*traceparent)) {
      context->span = new_span_id();
      names.traceparent = context->traceparent();
    }
  }
  return names;
}

std::shared_ptr<http::Exchange> trace(std::shared_ptr<http::Exchange> exchange, TraceOptions options) {
  return std::make_shared<Traced>(std::move(exchange), std::move(options));
}

}  // namespace gpux::server
