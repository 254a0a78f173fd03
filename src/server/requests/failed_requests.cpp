#include "server/requests/failed_requests.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "base/utf8_prefix.h"

namespace gpux::server {
namespace {

constexpr std::size_t max_path_bytes = 300, max_reason_bytes = 1000;
// Errors are short; a longer body is no error that a route has written.
constexpr std::size_t max_body_bytes = 64 << 10;

std::string shortened(std::string_view text, std::size_t bytes) {
  return one_line(utf8_prefix(text, bytes));
}

std::string message_in(const nlohmann::json& body) {
  if (!body.is_object()) return {};
  for (const char* name : {"detail", "error", "message"}) {
    const auto member = body.find(name);
    if (member == body.end()) continue;
    if (member->is_string()) return member->get<std::string>();
    if (member->is_object()) return message_in(*member);
  }
  return {};
}

bool differ_in_time_alone(const FailedRequest& left, const FailedRequest& right) {
  return left.method == right.method && left.path == right.path && left.status == right.status &&
         left.reason == right.reason;
}

}  // namespace

std::string reason_of(std::string_view body) {
  std::string message;
  if (body.size() <= max_body_bytes) message = message_in(nlohmann::json::parse(body, nullptr, false));
  return shortened(message.empty() ? body : std::string_view(message), max_reason_bytes);
}

void FailedRequests::add(FailedRequest request) {
  request.path = shortened(request.path, max_path_bytes);
  request.reason = shortened(request.reason, max_reason_bytes);
  request.id = shortened(request.id, max_path_bytes);
  const std::lock_guard lock(mutex_);
  if (!requests_.empty() && differ_in_time_alone(requests_.back(), request)) {
    request.count = requests_.back().count + 1;
    requests_.back() = std::move(request);
    return;
  }
  requests_.push_back(std::move(request));
  if (requests_.size() > capacity_) requests_.pop_front();
}

std::vector<FailedRequest> FailedRequests::all() const {
  const std::lock_guard lock(mutex_);
  return {requests_.begin(), requests_.end()};
}

}  // namespace gpux::server
