#include "server/protocols/answer_times.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace gpux::server {
namespace {

// "12.345": of whole microseconds, which costs a fraction of what a double does.
std::string milliseconds(std::chrono::nanoseconds duration) {
  const std::int64_t microseconds = std::max<std::int64_t>((duration.count() + 500) / 1000, 0);
  const fmt::format_int whole(microseconds / 1000);
  const auto fraction = static_cast<int>(microseconds % 1000);
  std::string text(whole.data(), whole.size());
  text += '.';
  for (const int place : {100, 10, 1}) text += static_cast<char>('0' + fraction / place % 10);
  return text;
}

}  // namespace

void add_times(http::Response& response, const runtime::InferTimes& times,
               std::chrono::steady_clock::time_point arrived) {
  response.headers.add("X-Queue-Time", milliseconds(times.queue));
  response.headers.add("X-Inference-Time", milliseconds(times.compute));
  response.headers.add("X-Total-Time", milliseconds(std::chrono::steady_clock::now() - arrived));
}

}  // namespace gpux::server
