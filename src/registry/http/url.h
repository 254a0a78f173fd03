#pragma once

#include <set>
#include <string>
#include <string_view>

namespace gpux::registry {

/// An http or https URL in its parts.
struct Url {
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< lower case; an IPv6 address is in brackets
  unsigned port = 0;   ///< the scheme's own where the URL has none
  std::string target;  ///< path and query: "/a/b?c=d"; begins with '/'

  /// "https://host/path": without the port where it is the scheme's own.
  [[nodiscard]] std::string text() const;
  /// Authority of the URL: "host" or "host:port".
  [[nodiscard]] std::string authority() const;
  /// The path without the query.
  [[nodiscard]] std::string path() const;
};

/// Error usage, which quotes `text`: another scheme, no host, user names or passwords, blanks, control characters and
/// backslashes are refused. A fragment ("#…") is removed.
Url parse_url(std::string_view text);

/// The URL that a Location header means on an answer of `base`: absolute, or relative to it. Errors as parse_url().
Url resolve_url(const Url& base, std::string_view location);

/// The URL that an answer of `base` leads to: resolve_url(). Error network where it is none, or would lead from https
/// to http: what is sent there is not read by others on its way.
Url redirect_url(const Url& base, std::string_view location);

/// Whether both have the same scheme, host and port: a secret for one may be sent to the other.
bool has_same_origin(const Url& a, const Url& b) noexcept;

/// Whether the host, without a port, is this machine: localhost, NAME.localhost, 127.0.0.0/8, [::1].
bool is_loopback(std::string_view host) noexcept;

/// Whether one of these, "HOST" or "HOST:PORT", is the host of the URL.
bool names_host(const std::set<std::string>& hosts, const Url& url);

/// The text as one part of a path or a query: what is no letter, digit, '-', '.', '_' or '~' becomes "%2F". With
/// `keep_slashes`, '/' stays.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);

}  // namespace gpux::registry
