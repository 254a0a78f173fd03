#include "cli/serve_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory_budget.h"
#include "gpux/error.h"
#include "server/requests/access.h"
#include "server/requests/api_keys.h"
#include "server/requests/audit_log.h"
#include "server/requests/limits_file.h"
#include "server/requests/request_limits.h"
#include "server/requests/request_memory.h"
#include "server/requests/shared_regions.h"

namespace gpux::cli {
namespace {

constexpr std::uint64_t max_key_file_bytes = std::uint64_t{16} << 20;

std::vector<server::ApiKey> read_keys(const std::string& file, const char* variable) {
  std::vector<server::ApiKey> keys;
  if (!file.empty()) keys = server::keys_of_file(read_file(file, max_key_file_bytes), file);
  if (const char* text = std::getenv(variable)) {
    for (server::ApiKey& key : server::keys_of_variable(text, variable)) keys.push_back(std::move(key));
  }
  return keys;
}

// Read again when the files change. The limiter then forgets the keys that are gone.
std::shared_ptr<server::Access> open_access(const ServeFlags& flags, std::shared_ptr<server::RequestLimiter> limiter) {
  std::vector<std::filesystem::path> files;
  for (const std::string& file : {flags.api_key_file, flags.admin_key_file, flags.limits_file}) {
    if (!file.empty()) files.emplace_back(file);
  }
  return std::make_shared<server::Access>(
      std::move(files),
      [api_key_file = flags.api_key_file, admin_key_file = flags.admin_key_file,
       limits_file = flags.limits_file](const server::AccessRules* before) {
        server::AccessRules rules;
        rules.keys =
            server::ApiKeys(read_keys(api_key_file, "GPUX_API_KEY"), read_keys(admin_key_file, "GPUX_ADMIN_KEY"),
                            before == nullptr ? nullptr : &before->keys);
        if (!limits_file.empty()) rules.limits = server::read_limits_file(limits_file);
        // No error: the limits of a key that was taken away must not keep it in force.
        for (const auto& [name, limits] : rules.limits.by_key) {
          if (rules.keys.names().contains(name) || name.starts_with("cert:")) continue;
          log::warning("{}: no API key has the name '{}'", limits_file, name);
        }
        return rules;
      },
      [limiter = std::move(limiter)](const server::AccessRules& rules) { limiter->keep_keys(rules.keys.names()); });
}

std::string machine_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

}  // namespace

http::ServerOptions http_options_of(const ServeFlags& flags, const server::ListenAddress& listen,
                                    const server::ServiceOptions& service) {
  http::ServerOptions options;
  options.host = listen.host;
  options.port = listen.port;
  options.unix_path = flags.unix_path;
  options.threads = flags.io_threads;
  options.busy_poll = std::chrono::microseconds(flags.busy_poll_us);
  options.tls_certificate = flags.tls_certificate;
  options.tls_key = flags.tls_key;
  options.tls_client_ca = flags.tls_client_ca;
  options.memory = service.memory;
  options.limits.max_body_bytes = flags.max_body_bytes;
  options.limits.max_decompressed_bytes = flags.max_body_bytes;
  return options;
}

server::BrowserAccess browser_access_of(const ServeFlags& flags, const std::string& listen_host, bool has_keys) {
  return server::BrowserAccess({.cors_origins = flags.cors_origins,
                                .allowed_hosts = flags.allowed_hosts,
                                .listen_host = listen_host,
                                .machine_name = machine_name(),
                                .has_keys = has_keys});
}

server::ServiceOptions service_options_of(const ServeFlags& flags) {
  server::ServiceOptions options;
  options.default_model = server::default_model(flags);
  options.access = open_access(flags, options.limiter);
  if (!flags.audit_log.empty()) options.audit = std::make_shared<server::AuditLog>(flags.audit_log);
  options.response_cache_bytes = flags.response_cache_bytes;
  options.log_requests = flags.log_requests;
  options.is_strict = flags.is_strict;
  if (!flags.shared_memory.empty()) {
    if (!flags.shared_memory.starts_with('/')) {
      throw Error(ErrorCode::usage, fmt::format("--shared-memory is '{}'; accepted: the beginning of names of shared "
                                                "memory, which begin with a slash",
                                                flags.shared_memory));
    }
    options.shared_regions = std::make_shared<server::SharedRegions>(flags.shared_memory);
  }
  options.stored_responses.max_responses = flags.max_responses;
  options.stored_responses.time_to_live = flags.response_ttl;
  options.store_changes.serves_store = flags.serves_store;
  options.store_changes.pulls_on_demand = flags.pulls_on_demand;
  options.store_changes.private_registries = flags.private_registries;
  // What is no origin or host is refused before models are loaded.
  options.browser_access = browser_access_of(flags, {}, options.access->rules()->keys.are_required());
  options.memory = std::make_shared<MemoryBudget>(
      server::request_memory_bytes(flags.max_body_bytes, usable_memory_bytes(Machine::this_one())));
  return options;
}

server::GrpcServerOptions grpc_options_of(const ServeFlags& flags, const server::ListenAddress& listen,
                                          const server::ServiceOptions& service) {
  server::GrpcServerOptions options;
  options.host = listen.host;
  options.port = flags.grpc_port.value_or(options.port);
  options.tls_certificate = flags.tls_certificate;
  options.tls_key = flags.tls_key;
  options.threads = flags.io_threads;
  options.busy_poll = std::chrono::microseconds(flags.busy_poll_us);
  options.access = service.access;
  options.limiter = service.limiter;
  options.audit = service.audit;
  options.tracer = service.tracer;
  options.tls_client_ca = flags.tls_client_ca;
  options.probe = {service.probe_timeout, service.probe_after};
  options.log_requests = service.log_requests;
  if (service.has_console) options.failures = service.failures;
  options.shared_regions = service.shared_regions;
  options.max_message_bytes = flags.max_body_bytes;
  options.memory = service.memory;
  if (flags.drain_delay.count() > 0) {
    // With gRPC's tenth more or less it has come for every connection by the end of the delay.
    options.max_connection_age = std::max(std::chrono::milliseconds(1000), flags.drain_delay * 9 / 10);
  }
  return options;
}

}  // namespace gpux::cli
