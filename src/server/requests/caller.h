#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/requests/api_keys.h"

namespace gpux::server {

/// Who sent a request.
struct Caller {
  std::string key;         ///< the name of the key that it came with, or "cert:NAME" of its certificate; empty: neither
  std::string request_id;  ///< X-Request-Id of the request
  std::string address;     ///< of the connection's other end, without its port: "127.0.0.1", "[::1]", "unix"
};

/// What came with a request and says who sent it. The texts are the request's.
struct Credentials {
  std::string_view authorization, x_api_key;  ///< fields of the header; empty: it has none
  /// Common name of the certificate that the client has proved to have, which may be empty; none: there is no
  /// certificate.
  std::optional<std::string_view> certificate_name;
  std::string_view peer;  ///< "127.0.0.1:40312", "[::1]:40312", "unix"
};

/// What the names of clients by their certificate begin with. No name of a key has a colon.
inline constexpr std::string_view certificate_prefix = "cert:";

/// By its key, or else by its certificate, where that has a name without control characters; without `request_id`. To
/// be asked once for each request: keys may be taken out while it is answered. Pure.
[[nodiscard]] Caller caller_of(const ApiKeys& keys, const Credentials& sent);

/// Whether it came with one of the keys, or with a certificate. Pure.
[[nodiscard]] bool is_known(const ApiKeys& keys, const Credentials& sent);

/// Whether it came with a key that may change models, or with a certificate where no admin keys are set. Pure.
[[nodiscard]] bool may_change_models(const ApiKeys& keys, const Credentials& sent);

}  // namespace gpux::server
