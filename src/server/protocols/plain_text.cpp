#include "server/protocols/plain_text.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "server/http/header_value.h"

namespace gpux::server {

bool is_plain_text(const http::Request& request) noexcept {
  return http::same_name(http::kind_of(request.headers["Content-Type"]), "text/plain");
}

std::string_view read_plain_text(const http::Request& request) {
  const auto charset = http::parameter_of(request.headers["Content-Type"], "charset");
  if (charset && !http::same_name(*charset, "utf-8")) {
    throw Error(ErrorCode::invalid_input, fmt::format("the charset of Content-Type is '{}'; accepted: utf-8",
                                                      one_line(utf8_prefix(*charset, 40))));
  }
  if (const std::string problem = file_text_problem(request.body.text()); !problem.empty()) {
    throw Error(ErrorCode::invalid_input, fmt::format("the body: {}", problem));
  }
  return request.body.text();
}

}  // namespace gpux::server
