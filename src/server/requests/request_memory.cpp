#include "server/requests/request_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format_message.h"
#include "gpux/error.h"
#include "server/http/server.h"

namespace gpux::server {

std::uint64_t request_memory_bytes(std::uint64_t max_body_bytes, std::uint64_t usable_bytes) {
  // The body, what is made of it, the answer, and others.
  constexpr std::uint64_t bodies = 4;
  const std::uint64_t largest = std::max(http::Limits{}.max_body_bytes, usable_bytes / bodies);
  if (max_body_bytes > largest) {
    throw Error(ErrorCode::usage, format_message("{} is {}; a request may need four times its body, and this process "
                                                 "may use {} bytes of memory: accepted here: up to {}",
                                                 setting_named("max_body"), max_body_bytes, usable_bytes, largest));
  }
  return std::max(std::min(http::default_memory_bytes, usable_bytes / 2), bodies * max_body_bytes);
}

}  // namespace gpux::server
