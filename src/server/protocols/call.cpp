#include "server/protocols/call.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/error_answers.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// By when a request that names its model or none has to be answered, as far as it can be told before it is read.
std::optional<Clock::time_point> latest_answer(const RouteCall& call) {
  const ModelRepository& repository = call.service.repository;
  const std::string name = repository.name_of(call.name ? *call.name : call.service.options.default_model);
  std::optional<std::chrono::milliseconds> longest;
  for (const auto& model : repository.models()) {
    if (!name.empty() && model->name() != name) continue;
    const auto timeout = model->options().timeout;
    if (!timeout) return call.work.deadline.time();
    longest = std::max(longest.value_or(*timeout), *timeout);
  }
  const auto own = call.work.deadline.time();
  if (!longest) return own;
  const Clock::time_point of_models = call.request().arrived + *longest;
  return own ? std::min(*own, of_models) : of_models;
}

}  // namespace

std::optional<Clock::time_point> deadline_of(const http::Request& request) {
  constexpr const char* field = "X-Request-Timeout-Ms";
  const auto text = request.headers.find(field);
  if (!text) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failure != std::errc() || end != text->data() + text->size() || value == 0) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("{} is not a number of milliseconds from 1 to 4294967295", field));
  }
  return request.arrived + std::chrono::milliseconds(value);
}

void cancel_when_gone(http::Exchange& exchange, const RequestWork& work, std::function<void()> cancel) {
  exchange.on_gone([stop = work.stop, cancel = std::move(cancel)]() mutable {
    stop.request_stop();
    if (cancel) cancel();
  });
}

std::shared_ptr<MemoryShare> hold_for_reading(const RequestWork& work, std::string_view json,
                                              std::uint64_t bytes_per_value) {
  constexpr std::size_t short_bytes = 64 << 10;
  if (json.size() <= short_bytes) return nullptr;
  return work.hold(json.size() + count_values_at_most(json) * bytes_per_value, "reading the body");
}

std::shared_ptr<AuditedChange> audit(const RouteCall& call, std::string action, std::string model, std::string target) {
  return std::make_shared<AuditedChange>(call.service.options.audit, AuditEntry{.action = std::move(action),
                                                                                .model = std::move(model),
                                                                                .target = std::move(target),
                                                                                .digest = {},
                                                                                .caller = *call.caller,
                                                                                .result = {},
                                                                                .reason = {}});
}

void do_later(const RouteCall& call, std::uint64_t cost, std::function<bool()> unit) {
  cancel_when_gone(*call.exchange, call.work);
  const auto fail = [exchange = call.exchange, protocol = call.protocol](const Error& error) {
    exchange->respond(error_response(error, protocol));
  };
  const std::optional<Clock::time_point> deadline = latest_answer(call);
  call.service.readers.post({.cancellation = Cancellation(call.work.stop.get_token(), deadline),
                             .cost = cost,
                             .unit = std::move(unit),
                             .failed = fail,
                             .may_fail_beside_unit = true,
                             .is_admitted = call.is_read_later});
  if (!deadline || call.is_read_later) return;
  // Answered in time, however long the unit in progress takes.
  call.service.limits.at(
      *deadline, [exchange = std::weak_ptr(call.exchange), stop = call.work.stop, protocol = call.protocol]() mutable {
        stop.request_stop();
        if (const auto waiting = exchange.lock()) {
          waiting->respond(
              error_response(Error(ErrorCode::deadline_exceeded, "the request was not finished in time"), protocol));
        }
      });
}

void do_units(const RouteCall& call, std::uint64_t cost, std::function<bool()> unit) {
  if (cost <= work_here_bytes) {
    while (unit()) {
    }
    return;
  }
  do_later(call, cost, std::move(unit));
}

}  // namespace gpux::server
