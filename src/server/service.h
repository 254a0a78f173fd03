#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/protocols/service_state.h"
#include "server/requests/caller.h"
#include "server/routes.h"

namespace gpux::server {

/// All protocols over HTTP: finds the route of a request, which hands it to the model's queue and writes the answer.
/// Every answer carries X-Request-Id, the client's own or a new one, and continues the client's W3C trace context.
class Service {
 public:
  /// The repository must outlive the service and the server that calls it.
  Service(ModelRepository& repository, ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Thread-safe; does not wait for the model. A request that admit() let in is of whom it was then, whatever keys have
  /// been taken out since.
  void handle(const std::shared_ptr<http::Exchange>& exchange);

  /// Refuses before the body is read what a page of a stranger may have sent, lacks a key, has no route, or has a body
  /// of another type than the route reads. Routes without a key, and those that read no body, accept one of a few
  /// kilobytes. OPTIONS is answered here, with what a browser asks before it sends a request of a page.
  [[nodiscard]] http::Admitted admit(const http::Request& request) const;

  /// Ends what is still read and prepared, and changes of the store: each at its next unit, with interrupted. After a
  /// drain. From any thread.
  void stop_work() {
    state_.is_stopped = true;
    state_.changes.jobs().stop();
    state_.readers.stop();
  }

  /// The metrics in Prometheus' text format, with exemplars. From any thread.
  [[nodiscard]] std::string metrics_page();

  /// Whether new traffic should come; false from the moment a drain begins.
  void set_ready(bool ready) noexcept { state_.is_ready = ready; }

  [[nodiscard]] bool ready() const noexcept { return state_.is_ready; }

  /// Sets the function that /metrics gets the counters of HTTP from.
  void set_counters(std::function<http::Counters()> counters) { state_.counters = std::move(counters); }

  /// Sets the counters of gRPC, if it is served. Must be called before the first request.
  void set_grpc_counts(std::shared_ptr<const GrpcCounts> counts) { state_.grpc_counts = std::move(counts); }

 private:
  /// Who sent a request, by the rules that it is answered by.
  struct Admission {
    std::shared_ptr<const AccessRules> rules;
    Caller caller;
  };

  [[nodiscard]] std::shared_ptr<const Admission> admission_of(const http::Request& request) const;
  /// Why admit() refuses a request; none: it does not.
  [[nodiscard]] std::optional<http::Response> refusal(const http::Request& request, const RouteMatch& match,
                                                      const Admission& admission) const;
  /// Puts on record that somebody with a key may not change models.
  void audit_refusal(const http::Request& request, const RouteMatch& match, Caller caller,
                     const std::string& reason) const;
  /// Why this request may not change the stored models; empty: it may. It has a key where the server has keys.
  [[nodiscard]] std::string refusal_to_change(const http::Request& request, const ApiKeys& keys) const;
  /// Why the console does not answer this request; empty: it does, or the route is none of the console.
  [[nodiscard]] std::string refusal_to_show(const http::Request& request, const Route& route,
                                            const ApiKeys& keys) const;
  /// Whether the page that sent the request may read its answer. `route` null: there is no such route.
  [[nodiscard]] bool page_may_read(const http::Request& request, const Route* route) const;
  /// Where a request of the route is kept if it fails; null: nowhere.
  [[nodiscard]] FailedRequests* failures_of(const Route* route);
  [[nodiscard]] http::Response preflight_answer(const http::Request& request, const RouteMatch& match) const;

  ServiceState state_;
};

}  // namespace gpux::server
