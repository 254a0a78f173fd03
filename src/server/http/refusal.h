#pragma once

#include <string>

namespace gpux::http {

/// Why the transport does not take a request.
struct Refusal {
  int status = 400;
  std::string message;
};

}  // namespace gpux::http
