#pragma once

#include <string_view>

#include "server/http/message.h"

/// Bodies that are one text as it is: `Content-Type: text/plain`.
namespace gpux::server {

[[nodiscard]] bool is_plain_text(const http::Request& request) noexcept;

/// The text of the body, a view of it. Error invalid_input if its charset or its bytes are not UTF-8.
[[nodiscard]] std::string_view read_plain_text(const http::Request& request);

}  // namespace gpux::server
