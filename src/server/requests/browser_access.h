#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/message.h"

namespace gpux::server {

/// Settings that decide whether a request of a web page is accepted.
struct BrowserAccessOptions {
  /// Origins of pages that may use the server besides those of this machine: "https://app.example.org", "null", or "*"
  /// for all.
  std::vector<std::string> cors_origins;
  /// Names that the field Host may have besides those of this machine: "models.example.org", or "*" for all.
  std::vector<std::string> allowed_hosts;
  std::string listen_host = "127.0.0.1";  ///< the address or name that the server listens on
  std::string machine_name;               ///< of gethostname(); empty: none
  bool has_keys = false;                  ///< requests need an API key, which a page of a stranger does not have
};

/// The fields of a request that decide it.
struct BrowserRequest {
  std::string_view host;                   ///< "localhost:8080"; empty where the client sent none
  std::optional<std::string_view> origin;  ///< none: not sent by a page, or a GET by a page of the same origin
};

/// Protects a server from the pages of strangers: a browser lets any page send requests to any server that the visitor
/// reaches, and lets a page whose name was changed to the server's address (DNS rebinding) read the answers. Follows
/// the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol). Immutable, so all members from any thread.
class BrowserAccess {
 public:
  BrowserAccess() : BrowserAccess(BrowserAccessOptions{}) {}

  /// Error usage that names the flag where an origin is not SCHEME://HOST[:PORT], "null" or "*", or a host not a name.
  explicit BrowserAccess(BrowserAccessOptions options);

  /// Why the request is refused; empty where it is accepted. Without keys
  /// - Host must be an IP address, a name of this machine, one below .local or .internal, or an allowed one. A server
  /// that listens on other addresses
  ///   than loopback requires that only of requests with an Origin, because other machines use any name;
  /// - Origin must be absent, of this server, of this machine (localhost or a loopback address), or in cors_origins.
  [[nodiscard]] std::string refusal(const BrowserRequest& request) const;

  /// Whether no page sent the request, or one of an origin that may use the server: its own, one of this machine, or in
  /// cors_origins.
  [[nodiscard]] bool is_known_origin(const BrowserRequest& request) const;

  /// Whether no page sent the request, or one of the server itself.
  [[nodiscard]] static bool is_own_origin(const BrowserRequest& request);

  /// Whether no page of a stranger can have this name: it is an IP address, a name of this machine, one below .local or
  /// .internal, or in allowed_hosts. `authority` is the field Host.
  [[nodiscard]] bool is_allowed_host(std::string_view authority) const;

  /// Whether the server listens on a loopback address.
  [[nodiscard]] bool listens_on_loopback() const noexcept { return listens_on_loopback_; }

  /// Whether a page of this origin may read answers: it is of this machine or in cors_origins.
  [[nodiscard]] bool may_read(std::string_view origin) const;

 private:
  BrowserAccessOptions options_;
  bool listens_on_loopback_ = true;
};

/// Adds the fields by which a browser lets a page of this origin read the answer.
void allow_page_to_read(http::Response& answer, std::string_view origin);

/// Content types that the body of a route may have.
enum class BodyKind : int {
  json,
  json_or_text,  ///< also text/plain
  any,
};

/// Why a body of this Content-Type is refused; empty where it is accepted. No Content-Type is JSON, and so are
/// application/x-www-form-urlencoded, which curl sends unless it is told otherwise, application/octet-stream and
/// text/json.
[[nodiscard]] std::string content_type_problem(BodyKind kind, std::string_view content_type);

}  // namespace gpux::server
