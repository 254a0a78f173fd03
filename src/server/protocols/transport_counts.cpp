#include "server/protocols/transport_counts.h"

#include <optional>

namespace gpux::server {

TransportCounts transport_counts(ServiceState& service) {
  StoreChanges& changes = service.changes;
  const auto& spans = service.options.span_counts;
  return {.http = service.counters ? service.counters() : http::Counters{},
          .grpc = service.grpc_counts,
          .ignored_members = service.member_rules.ignored(),
          .unknown_members = service.member_rules.unknown(),
          .store_jobs = changes.options().serves_store ? &changes.jobs().counts() : nullptr,
          .uploaded_bytes = changes.uploads().bytes(),
          .routes = &service.route_figures,
          .spans = spans ? std::optional(spans()) : std::nullopt,
          .keys = service.options.limiter->counts(),
          .reloads = service.options.access->reloads(),
          .audit = service.options.audit->counts(),
          .cache = service.response_cache.is_on() ? std::optional(service.response_cache.counts()) : std::nullopt};
}

}  // namespace gpux::server
