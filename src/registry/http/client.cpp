#include "registry/http/client.h"

#include <mutex>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "registry/http/transfer.h"
#include "registry/http/url.h"

namespace gpux::registry {
namespace {

// Where a repetition may do the work twice, only after an answer that says it was not done.
bool may_repeat(const Request& request, int status) {
  const bool is_idempotent = request.method != Method::post && request.method != Method::patch;
  return is_idempotent || request.is_repeatable || status == 429 || status == 503;
}

double random_share() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

}  // namespace

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::post:
      return "POST";
    case Method::put:
      return "PUT";
    case Method::patch:
      return "PATCH";
    case Method::remove:
      return "DELETE";
  }
  return "GET";
}

struct Client::State {
  explicit State(ClientOptions the_options) : options(std::move(the_options)) {}

  std::unique_ptr<Connection> take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Connection>();
    std::unique_ptr<Connection> connection = std::move(idle.back());
    idle.pop_back();
    return connection;
  }

  void put_back(std::unique_ptr<Connection> connection) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(connection));
  }

  // One attempt, to the end of the redirects.
  Response follow(const Request& request, bool& received) {
    const Url first = parse_url(request.url);
    Url url = first;
    Method method = request.method;
    Request without_body;
    const Request* sent = &request;
    std::vector<std::pair<std::string, Headers>> redirects;
    for (;;) {
      std::unique_ptr<Connection> connection = take();
      Response response = connection->transfer(*sent, method, url, has_same_origin(first, url), options, received);
      put_back(std::move(connection));
      const std::string location = response.headers.find("location");
      if (!is_redirect(response.status) || location.empty() || request.max_redirects == 0) {
        response.redirects = std::move(redirects);
        return response;
      }
      if (redirects.size() == request.max_redirects) {
        throw Error(ErrorCode::network,
                    fmt::format("{} redirects more than {} times", first.authority(), request.max_redirects));
      }
      redirects.emplace_back(response.url, std::move(response.headers));
      url = redirect_url(url, location);
      if (request.has_secret_body && !has_same_origin(first, url)) {
        throw Error(ErrorCode::network, fmt::format("{} redirects to {}, where credentials are not sent",
                                                    first.authority(), url.authority()));
      }
      const bool becomes_get = response.status == 303 || (method == Method::post && response.status < 303);
      if (!becomes_get || method == Method::head) continue;
      without_body = request;
      without_body.body = {};
      sent = &without_body;
      method = Method::get;
    }
  }

  // Whether the request is to be sent again; waits before it is.
  bool waits_for_another(const Request& request, const Attempt& attempt, const std::string& reason) const {
    if (!may_repeat(request, attempt.status)) return false;
    const auto delay = retry_delay(request.retry, attempt, random_share());
    if (!delay) return false;
    if (options.on_retry) options.on_retry(reason, *delay);
    wait_for(*delay, options.cancellation);
    return true;
  }

  ClientOptions options;
  std::mutex mutex;
  std::vector<std::unique_ptr<Connection>> idle;
};

Client::Client(ClientOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Client::~Client() = default;

const ClientOptions& Client::options() const noexcept {
  return state_->options;
}

Response Client::send(const Request& request) {
  for (Attempt attempt;; ++attempt.number) {
    bool received = false;
    attempt.status = 0;
    attempt.retry_after.reset();
    try {
      Response response = state_->follow(request, received);
      if (response.is_success()) return response;
      attempt.status = response.status;
      const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
      attempt.retry_after = parse_retry_after(response.headers.find("retry-after"), now);
      const std::string reason = fmt::format("{} answers {}", parse_url(response.url).authority(), response.status);
      if (!state_->waits_for_another(request, attempt, reason)) return response;
    } catch (const TransferError& error) {
      attempt.is_transient = error.is_transient();
      if (received || !state_->waits_for_another(request, attempt, error.message())) throw;
    }
  }
}

}  // namespace gpux::registry
