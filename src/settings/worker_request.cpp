#include "settings/worker_request.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace gpux {

WorkerRequest read_workers(const std::string& text, const Source& source) {
  WorkerRequest request;
  if (text == "auto") {
    request.kind = WorkerRequest::Kind::automatic;
    return request;
  }
  if (text == "devices") {
    request.kind = WorkerRequest::Kind::devices;
    request.count = 0;
    return request;
  }
  std::string_view number = text;
  for (const auto& [prefix, kind] : {std::pair(std::string_view("devices:"), WorkerRequest::Kind::devices),
                                     std::pair(std::string_view("cores:"), WorkerRequest::Kind::cores)}) {
    if (!number.starts_with(prefix)) continue;
    request.kind = kind;
    number.remove_prefix(prefix.size());
    break;
  }
  constexpr unsigned most = 1024;
  const char* const end = number.data() + number.size();
  const auto [stopped, failure] = std::from_chars(number.data(), end, request.count);
  if (failure != std::errc() || stopped != end || request.count == 0 || request.count > most) {
    refuse(text, source, "1 to 1024, auto, devices, devices:N, cores:N");
  }
  return request;
}

std::string to_string(const WorkerRequest& request) {
  const std::string count = std::to_string(request.count);
  switch (request.kind) {
    case WorkerRequest::Kind::count:
      return count;
    case WorkerRequest::Kind::automatic:
      return "auto";
    case WorkerRequest::Kind::devices:
      return request.count == 0 ? "devices" : "devices:" + count;
    case WorkerRequest::Kind::cores:
      return "cores:" + count;
  }
  return count;
}

}  // namespace gpux
