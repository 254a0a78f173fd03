#include "server/service.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "base/utf8_prefix.h"
#include "server/protocols/call.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/transport_counts.h"
#include "server/requests/api_keys.h"
#include "server/requests/change_access.h"
#include "server/requests/console_access.h"
#include "server/requests/request_trace.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// Of requests that need no key or no body: some clients send "{}".
constexpr std::uint64_t small_body_bytes = 4 << 10;

// How much of the body is to be read as JSON.
std::uint64_t text_bytes(const http::Request& request) {
  const std::uint64_t all = request.body.bytes.size();
  const auto field = request.headers.find("Inference-Header-Content-Length");
  std::uint64_t json = 0;
  if (!field || std::from_chars(field->data(), field->data() + field->size(), json).ec != std::errc()) return all;
  return std::min(json, all);
}

// Health, metrics and lists, which are asked for all the time, would only hide what is of interest.
std::shared_ptr<RequestSpans> begin_spans(const Tracer* tracer, const http::Request& request, const Route* route) {
  if (tracer == nullptr || route == nullptr || request.method == "GET" || request.method == "HEAD") return nullptr;
  auto spans = tracer->begin(fmt::format("{} {}", request.method, route->path), request.headers.find("traceparent"),
                             request.arrived);
  if (!spans) return nullptr;
  spans->set("http.request.method", request.method);
  spans->set("http.route", std::string(route->path));
  constexpr std::size_t max_bytes = 300;
  spans->set("url.path", std::string(utf8_prefix(request.path, max_bytes)));
  if (request.peer) spans->set("client.address", request.peer->substr(0, request.peer->rfind(':')));
  if (const auto agent = request.headers.find("User-Agent"))
    spans->set("user_agent.original", one_line(utf8_prefix(*agent, max_bytes)));
  return spans;
}

void dispatch(const RouteCall& call, const Route* route) {
  try {
    if (route == nullptr) throw Error(ErrorCode::not_found, "there is no such route");
    route->handler(call);
  } catch (const Error& error) {
    // Its model may have been closed while it was read: that would be not_found.
    if (call.service.is_stopped) {
      call.exchange->respond(
          error_response(Error(ErrorCode::interrupted, "the server is shutting down"), call.protocol));
    } else {
      call.exchange->respond(error_response(error, call.protocol));
    }
  } catch (...) {
    const Error error = current_error();
    log::error("a request could not be handled: {}", error.message());
    const bool is_memory = error.code() == ErrorCode::resource_exhausted;
    call.exchange->respond(
        error_response(is_memory ? error : Error(ErrorCode::internal, "the server failed"), call.protocol));
  }
}

std::string_view peer_of(const http::Request& request) {
  return request.peer ? std::string_view(*request.peer) : std::string_view();
}

Credentials credentials_of(const http::Request& request) {
  Credentials sent{.authorization = request.headers["Authorization"],
                   .x_api_key = request.headers["X-API-Key"],
                   .certificate_name = {},
                   .peer = peer_of(request)};
  if (request.certificate_name) sent.certificate_name = *request.certificate_name;
  return sent;
}

BrowserRequest sender_of(const http::Request& request) {
  return {.host = request.headers["Host"], .origin = request.headers.find("Origin")};
}

KeyNeed need_of(RouteKey key) {
  switch (key) {
    case RouteKey::none:
      return KeyNeed::none;
    case RouteKey::any:
      return KeyNeed::any;
    case RouteKey::admin:
    case RouteKey::change:
      break;
  }
  return KeyNeed::admin;
}

// "/v2/repository/models/{name}/load" is a load.
std::string_view action_of(const Route& route) {
  const std::string_view path = route.path;
  const std::string_view last = path.substr(path.rfind('/') + 1);
  return last.starts_with('{') ? "upload" : last;
}

// What is posted with a key that need not be an admin's: nearly all of it uses a model, and the rest (tokens, regions
// of shared memory, what is known of a model) counts alike. Not the console, which asks again and again.
bool is_limited(const Route& route) {
  return route.method == "POST" && route.key == RouteKey::any && !route.contract.is_of_console;
}

// A proxy says so.
bool is_forwarded(const http::Request& request) {
  const auto is_there = [&](std::string_view field) { return request.headers.find(field).has_value(); };
  return is_there("Forwarded") || is_there("X-Forwarded-For") || is_there("Via");
}

}  // namespace

Service::Service(ModelRepository& repository, ServiceOptions options)
    : state_(repository, std::move(options), all_routes()) {}

Service::~Service() = default;

std::shared_ptr<const Service::Admission> Service::admission_of(const http::Request& request) const {
  const std::shared_ptr<const AccessRules> rules = state_.options.access->rules();
  return std::make_shared<const Admission>(rules, caller_of(rules->keys, credentials_of(request)));
}

void Service::audit_refusal(const http::Request& request, const RouteMatch& match, Caller caller,
                            const std::string& reason) const {
  // Whoever has no key could fill the log.
  if (caller.key.empty() || match.route->method == "GET") return;
  caller.request_id = name_request(request.headers["X-Request-Id"], std::nullopt).id;
  state_.options.audit->write_refused({.action = std::string(action_of(*match.route)),
                                       .model = match.name.value_or(""),
                                       .target = {},
                                       .digest = {},
                                       .caller = std::move(caller),
                                       .result = {},
                                       .reason = reason});
}

std::string Service::refusal_to_change(const http::Request& request, const ApiKeys& keys) const {
  const BrowserAccess& browser = state_.options.browser_access;
  return change_refusal({.serves_store = state_.changes.options().serves_store,
                         .has_keys = may_change_models(keys, credentials_of(request)),
                         .listens_on_loopback = browser.listens_on_loopback(),
                         .peer = peer_of(request),
                         .is_forwarded = is_forwarded(request),
                         .is_of_strange_origin = !browser.is_known_origin(sender_of(request))});
}

std::string Service::refusal_to_show(const http::Request& request, const Route& route, const ApiKeys& keys) const {
  const ServiceOptions& options = state_.options;
  // Without a console nothing is found, whoever asks.
  if (!route.contract.is_of_console || !options.has_console) return {};
  const BrowserRequest sender = sender_of(request);
  // The files of the page have nothing of the server in them. The page says why it gets no more.
  const bool has_keys = route.key == RouteKey::none || is_known(keys, credentials_of(request));
  return console_refusal(
      {.has_keys = has_keys,
       .is_of_own_page = BrowserAccess::is_own_origin(sender),
       .is_for_this_machine = options.console_is_for_this_machine,
       .is_of_allowed_host = sender.host.empty() || options.browser_access.is_allowed_host(sender.host),
       .peer = peer_of(request),
       .is_forwarded = is_forwarded(request)});
}

bool Service::page_may_read(const http::Request& request, const Route* route) const {
  if (route != nullptr && route->contract.is_of_console) return false;
  const auto origin = request.headers.find("Origin");
  return origin && state_.options.browser_access.may_read(*origin);
}

std::optional<http::Response> Service::refusal(const http::Request& request, const RouteMatch& match,
                                               const Admission& admission) const {
  const auto answer = [&](ErrorCode code, const std::string& message, int status) {
    http::Response response = error_response(Error(code, message), match.protocol);
    response.status = status;
    return response;
  };
  if (const bool is_tcp = !request.peer || *request.peer != "unix"; is_tcp) {
    std::string problem = state_.options.browser_access.refusal(sender_of(request));
    // No key is wrong, which "permission" says to clients.
    if (!problem.empty()) return answer(ErrorCode::usage, problem, 403);
  }
  if (match.route == nullptr) {
    // Not not_found: no model is missing.
    if (match.allowed.empty()) return answer(ErrorCode::usage, "there is no such route", 404);
    if (request.method == "OPTIONS") return preflight_answer(request, match);
    http::Response response = answer(ErrorCode::usage, fmt::format("accepted here: {}", join(match.allowed)), 405);
    response.headers.add("Allow", join(match.allowed));
    return response;
  }
  const ApiKeys& keys = admission.rules->keys;
  if (const auto problem = key_refusal(keys, need_of(match.route->key), request.headers["Authorization"],
                                       request.headers["X-API-Key"])) {
    if (problem->is_known) {
      audit_refusal(request, match, admission.caller, problem->message);
      // No key is wrong, which "permission" says to clients.
      return answer(ErrorCode::usage, problem->message, 403);
    }
    http::Response response = answer(ErrorCode::permission, problem->message, 401);
    response.headers.add("WWW-Authenticate", "Bearer");
    return response;
  }
  if (const std::string problem = refusal_to_show(request, *match.route, keys); !problem.empty()) {
    return answer(ErrorCode::usage, problem, 403);
  }
  if (match.route->key == RouteKey::change) {
    if (const std::string problem = refusal_to_change(request, keys); !problem.empty()) {
      audit_refusal(request, match, admission.caller, problem);
      return answer(ErrorCode::usage, problem, 403);
    }
  }
  if (match.route->method == "POST") {
    const std::string problem = content_type_problem(match.route->contract.body, request.headers["Content-Type"]);
    if (!problem.empty()) return answer(ErrorCode::invalid_input, problem, 415);
  }
  if (is_limited(*match.route)) {
    if (const auto refused = state_.options.limiter->admit(admission.caller, admission.rules->limits)) {
      return limit_response(*refused, message_of(*refused, admission.caller), match.protocol);
    }
  }
  return std::nullopt;
}

std::string Service::metrics_page() {
  const auto models = state_.repository.models_in_use();
  return prometheus_text(models, transport_counts(state_), WithExemplars::yes);
}

http::Admitted Service::admit(const http::Request& request) const {
  const RouteMatch match = match_route(request);
  std::shared_ptr<const Admission> admission = admission_of(request);
  if (std::optional<http::Response> refused = refusal(request, match, *admission)) {
    if (page_may_read(request, match.route)) allow_page_to_read(*refused, request.headers["Origin"]);
    return std::move(*refused);
  }
  http::Admitted admitted;
  admitted.admission = std::move(admission);
  if (match.route->key == RouteKey::none || match.route->method != "POST") admitted.max_body_bytes = small_body_bytes;
  return admitted;
}

http::Response Service::preflight_answer(const http::Request& request, const RouteMatch& match) const {
  http::Response response;
  response.status = 204;
  const std::string methods = join(match.allowed);
  response.headers.add("Allow", methods);
  const auto origin = request.headers.find("Origin");
  if (!origin || !state_.options.browser_access.may_read(*origin)) return response;
  response.headers.add("Access-Control-Allow-Methods", methods);
  // What clients add differs (OpenAI's: X-Stainless-OS and others), and the server reads only fields that it knows.
  if (const auto fields = request.headers.find("Access-Control-Request-Headers")) {
    response.headers.add("Access-Control-Allow-Headers", *fields);
  }
  if (request.headers["Access-Control-Request-Private-Network"] == "true") {
    response.headers.add("Access-Control-Allow-Private-Network", "true");
  }
  response.headers.add("Access-Control-Max-Age", "600");
  return response;
}

// Memory that the JSON of a request takes for each of its bytes while it is read, as a measure of the work.
constexpr std::uint64_t json_reading_bytes_per_byte = 16;

// Probes ask without a key, and are told again and again that something is not ready.
FailedRequests* Service::failures_of(const Route* route) {
  const bool is_kept = state_.options.has_console && route != nullptr && route->key != RouteKey::none;
  return is_kept ? state_.options.failures.get() : nullptr;
}

void Service::handle(const std::shared_ptr<http::Exchange>& exchange) {
  RouteMatch match = match_route(exchange->request());
  const http::Request& request = exchange->request();
  auto admission = std::static_pointer_cast<const Admission>(request.admission);
  if (admission == nullptr) admission = admission_of(request);
  RequestNames names = name_request(request.headers["X-Request-Id"], request.headers.find("traceparent"));
  const auto caller = std::make_shared<Caller>(admission->caller);
  caller->request_id = names.id;
  std::optional<LimitRefusal> too_much;
  std::shared_ptr<LimitedRequest> limited;
  if (match.route != nullptr && is_limited(*match.route)) {
    limited = state_.options.limiter->begin(*caller, admission->rules->limits, too_much);
  }
  RequestWork work{.readers = &state_.readers,
                   .memory = state_.options.memory,
                   .stop = {},
                   .deadline = {},
                   .member_rules = &state_.member_rules,
                   .spans = begin_spans(state_.options.tracer.get(), request, match.route),
                   .limited = limited};
  auto traced = trace(exchange, {.deadline = work.deadline,
                                 .log_request = state_.options.log_requests,
                                 .log_successes = match.route == nullptr || !match.route->contract.is_of_console,
                                 .page_may_read = page_may_read(exchange->request(), match.route),
                                 .failures = failures_of(match.route),
                                 .spans = work.spans,
                                 .figures = match.route == nullptr ? nullptr : &state_.route_figures,
                                 .method = match.route == nullptr ? "" : match.route->method,
                                 .route = match.route == nullptr ? "" : match.route->path,
                                 .names = std::move(names),
                                 .limited = std::move(limited)});
  if (too_much) {
    traced->respond(limit_response(*too_much, message_of(*too_much, *caller), match.protocol));
    return;
  }
  RouteCall call{.service = state_,
                 .exchange = std::move(traced),
                 .name = std::move(match.name),
                 .version = std::move(match.version),
                 .id = std::move(match.id),
                 .protocol = match.protocol,
                 .caller = caller,
                 .route = match.route,
                 .work = std::move(work)};
  const bool has_texts = match.protocol != Protocol::own && match.protocol != Protocol::open_inference;
  const std::uint64_t most = has_texts ? state_.options.tokenize_here_bytes : state_.options.read_here_bytes;
  const std::uint64_t bytes = text_bytes(call.request());
  const Route* route = match.route;
  try {
    if (route != nullptr && route->method == "POST") call.work.deadline.bring_forward(deadline_of(call.request()));
    if (route == nullptr || bytes <= most) {
      dispatch(call, route);
      return;
    }
    RouteCall later = call;
    later.is_read_later = true;
    do_later(call, bytes * json_reading_bytes_per_byte, [later = std::move(later), route] {
      dispatch(later, route);
      return false;
    });
  } catch (...) {
    call.exchange->respond(error_response(current_error(), call.protocol));
  }
}

}  // namespace gpux::server
