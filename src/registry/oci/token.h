#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace gpux::oci {

/// Answer of a token server.
struct TokenAnswer {
  std::string token;                    ///< for "Authorization: Bearer …"
  std::chrono::seconds expires_in{60};  ///< from when it was issued; the protocol's default is 60 s
  std::string refresh_token;            ///< an identity token; mostly empty
};

/// Reads a token server's JSON. Error network if it has no token, or one that cannot be sent in a header.
TokenAnswer parse_token_answer(std::string_view json);

}  // namespace gpux::oci
