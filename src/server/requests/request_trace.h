#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/server.h"
#include "server/requests/failed_requests.h"
#include "server/requests/request_limits.h"
#include "server/requests/request_work.h"
#include "server/requests/route_figures.h"
#include "server/telemetry/request_spans.h"

namespace gpux::server {

/// Ids of a request in answers and logs.
struct RequestNames {
  std::string id;           ///< the client's where it sent a usable one, else a new one
  std::string traceparent;  ///< the client's trace with a span of our own; empty where it sent none
};

RequestNames name_request(std::string_view given_id, std::optional<std::string_view> traceparent);

struct TraceOptions {
  RequestDeadline deadline;    ///< answers are written until the time that it has when they are given
  bool log_request = false;    ///< each answer is a line of the log
  bool log_successes = true;   ///< with log_request: also where it is no error
  bool page_may_read = false;  ///< answers tell a browser that the page of the request's Origin may read them
  /// Keeps the answers that are errors; outlives the exchange; null: none are kept.
  FailedRequests* failures = nullptr;
  std::shared_ptr<RequestSpans> spans = {};  ///< end with the answer; null: the request is not traced
  RouteFigures* figures = nullptr;           ///< gets the status and the time of the answer; null: nobody does
  std::string_view method, route;            ///< for the figures
  std::optional<RequestNames> names = {};    ///< empty: as name_request() has them
  /// Ends with the answer, which tells what is left of its limits; null: nobody limits the request.
  std::shared_ptr<LimitedRequest> limited = {};
};

/// The exchange with its request id: answers carry X-Request-Id, the client's where it sent a usable one, and
/// traceparent with a span of their own where the client sent one.
std::shared_ptr<http::Exchange> trace(std::shared_ptr<http::Exchange> exchange, TraceOptions options);

}  // namespace gpux::server
