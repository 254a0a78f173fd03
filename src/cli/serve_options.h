#pragma once

#include <string>

#include "cli/serve_flags.h"
#include "server/grpc/server.h"
#include "server/http/server.h"
#include "server/models/served_models.h"
#include "server/requests/browser_access.h"
#include "server/service.h"

/// The flags of `gpux serve` as the options of what it consists of.
namespace gpux::cli {

/// Errors of the files that the flags name: of keys, limits and the audit log; usage where a flag makes no sense.
server::ServiceOptions service_options_of(const ServeFlags& flags);

/// `listen_host`: empty as long as it is not known.
server::BrowserAccess browser_access_of(const ServeFlags& flags, const std::string& listen_host, bool has_keys);

http::ServerOptions http_options_of(const ServeFlags& flags, const server::ListenAddress& listen,
                                    const server::ServiceOptions& service);

/// What is shared with HTTP is that of `service`.
server::GrpcServerOptions grpc_options_of(const ServeFlags& flags, const server::ListenAddress& listen,
                                          const server::ServiceOptions& service);

}  // namespace gpux::cli
