#include "server/protocols/readiness.h"

#include <fmt/format.h>

#include "server/models/probe.h"
#include "tensor/json_writer.h"

namespace gpux::server {

void respond_readiness(http::Exchange& exchange, bool ready, const std::string& not_ready) {
  std::string text = fmt::format(R"({{"ready":{},"live":true)", ready);
  if (!ready) {
    text += R"(,"not_ready":)";
    append_json_string(text, not_ready);
  }
  exchange.respond(http::Response::json(ready ? 200 : 503, text + "}"));
}

void answer_live(const RouteCall& call) {
  call.exchange->respond(http::Response::json(200, R"({"live":true})"));
}

void answer_ready(const RouteCall& call) {
  if (!call.service.is_ready) {
    respond_readiness(*call.exchange, false, "the server is shutting down");
    return;
  }
  const ProbeLimits limits{call.service.options.probe_timeout, call.service.options.probe_after};
  const auto respond = [exchange = call.exchange](const std::string& failed) {
    respond_readiness(*exchange, failed.empty(), failed);
  };
  if (call.name) {
    probe(call.service.repository, *call.name, call.version.value_or(""), limits,
          [respond, name = call.service.repository.name_of(*call.name)](bool answered) {
            respond(answered ? "" : name);
          });
  } else {
    probe_all(call.service.repository, limits, respond);
  }
}

}  // namespace gpux::server
