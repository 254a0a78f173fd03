#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/server.h"
#include "server/protocols/route.h"
#include "server/protocols/service_state.h"
#include "server/requests/audit_log.h"
#include "server/requests/caller.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// A request on its way through a route.
struct RouteCall {
  ServiceState& service;
  std::shared_ptr<http::Exchange> exchange;
  std::optional<std::string> name, version;  ///< of the path
  std::optional<std::string> id;             ///< of the path: of something that the server keeps
  Protocol protocol = Protocol::own;
  std::shared_ptr<const Caller> caller;  ///< not null
  const Route* route = nullptr;          ///< null: there is none
  RequestWork work;
  bool is_read_later = false;  ///< by the readers, and not on the thread that called Service::handle()

  [[nodiscard]] const http::Request& request() const { return exchange->request(); }
};

/// A change of models that the call asks for, with its action and the model's name; `target` of a copy. Errors of
/// AuditLog::require_writable().
std::shared_ptr<AuditedChange> audit(const RouteCall& call, std::string action, std::string model,
                                     std::string target = {});

/// Has the readers do it in units, and ends it when the client leaves or the deadline passes. A unit says whether
/// another one follows.
void do_later(const RouteCall& call, std::uint64_t cost, std::function<bool()> unit);

/// Does the units here where that takes little.
void do_units(const RouteCall& call, std::uint64_t cost, std::function<bool()> unit);

/// X-Request-Timeout-Ms, counted from the arrival. Error invalid_input.
std::optional<std::chrono::steady_clock::time_point> deadline_of(const http::Request& request);

/// Ends the work and what is pending of it when the client leaves.
void cancel_when_gone(http::Exchange& exchange, const RequestWork& work, std::function<void()> cancel = nullptr);

/// The memory that reading JSON takes, as RequestWork::hold() has it, where the text is long; null for a short one.
std::shared_ptr<MemoryShare> hold_for_reading(const RequestWork& work, std::string_view json,
                                              std::uint64_t bytes_per_value);

/// Maximum memory per parsed JSON value: a string or an element of a list; a member of an object with its name; a
/// number of a tensor.
inline constexpr std::uint64_t bytes_per_json_string = 40;
inline constexpr std::uint64_t bytes_per_json_member = 120;
inline constexpr std::uint64_t bytes_per_json_number = 8;

}  // namespace gpux::server
