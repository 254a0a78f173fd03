#include "registry/http/url.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

constexpr std::size_t limit_url_bytes = 8192;
constexpr unsigned http_port = 80, https_port = 443, max_port = 65535;

unsigned port_of_scheme(std::string_view scheme) {
  return scheme == "https" ? https_port : http_port;
}

[[noreturn]] void refuse(std::string_view text, std::string_view reason) {
  constexpr std::size_t limit_quoted = 200;
  // A query may hold a signature.
  text = text.substr(0, std::min(limit_quoted, text.find('?')));
  throw Error(ErrorCode::usage, fmt::format("cannot use the address {}: {}; http://HOST/PATH and https://HOST/PATH are "
                                            "accepted",
                                            in_quotes(text), reason));
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool is_address_character(char c) {
  return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    if (host.size() < 4 || !host.ends_with(']')) return false;
    host = host.substr(1, host.size() - 2);
    return std::all_of(host.begin(), host.end(), is_address_character);
  }
  return !host.empty() && std::all_of(host.begin(), host.end(), is_host_character);
}

/// "/a/./b/../c" is "/a/c".
std::string without_dot_segments(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const std::size_t next = path.find('/', 1);
    const std::string_view segment = path.substr(0, next);
    const bool is_last = next == std::string_view::npos;
    if (segment == "/..") {
      result.erase(std::min(result.rfind('/'), result.size()));
    } else if (segment != "/.") {
      result += segment;
    }
    if (is_last && (segment == "/." || segment == "/..")) result += '/';
    path.remove_prefix(is_last ? path.size() : next);
  }
  return result.empty() ? "/" : result;
}

}  // namespace

std::string Url::authority() const {
  return port == port_of_scheme(scheme) ? host : fmt::format("{}:{}", host, port);
}

std::string Url::text() const {
  return fmt::format("{}://{}{}", scheme, authority(), target);
}

std::string Url::path() const {
  return target.substr(0, target.find('?'));
}

Url parse_url(std::string_view text) {
  if (text.size() > limit_url_bytes) refuse(text, fmt::format("it has more than {} bytes", limit_url_bytes));
  const bool is_clean = std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7f && c != '\\';
  });
  if (!is_clean) refuse(text, "it contains blanks, control characters or backslashes");
  const std::string_view whole = text;
  text = text.substr(0, text.find('#'));
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) refuse(whole, "it has no scheme");
  Url url;
  url.scheme = lower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") refuse(whole, "its scheme is neither http nor https");
  text.remove_prefix(colon + 3);
  const std::string_view authority = text.substr(0, text.find_first_of("/?"));
  text.remove_prefix(authority.size());
  if (authority.find('@') != std::string_view::npos) refuse(whole, "it contains a user name");
  const std::size_t after_address = authority.starts_with('[') ? authority.find(']') : 0;
  const std::size_t port_colon = authority.find(':', std::min(after_address, authority.size()));
  url.host = lower(authority.substr(0, port_colon));
  if (!is_host(url.host)) refuse(whole, "it has no valid host");
  url.port = port_of_scheme(url.scheme);
  if (port_colon != std::string_view::npos) {
    const std::string_view port = authority.substr(port_colon + 1);
    const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (failure != std::errc() || end != port.data() + port.size() || url.port == 0 || url.port > max_port) {
      refuse(whole, "its port is no number from 1 to 65535");
    }
  }
  url.target = text.starts_with('/') ? std::string(text) : "/" + std::string(text);
  return url;
}

Url resolve_url(const Url& base, std::string_view location) {
  location = location.substr(0, location.find('#'));
  const std::size_t delimiter = location.find_first_of(":/?");
  const bool has_scheme = delimiter != std::string_view::npos && location[delimiter] == ':' &&
                          location.substr(delimiter).starts_with("://");
  if (has_scheme) return parse_url(location);
  if (location.starts_with("//")) return parse_url(base.scheme + ":" + std::string(location));
  const std::string origin = base.scheme + "://" + base.authority();
  if (location.empty()) return parse_url(origin + base.target);
  if (location.starts_with('?')) return parse_url(origin + base.path() + std::string(location));
  std::string target(location);
  if (!location.starts_with('/')) {
    const std::string path = base.path();
    target = path.substr(0, path.rfind('/') + 1) + target;
  }
  const std::size_t query = target.find('?');
  std::string resolved = without_dot_segments(std::string_view(target).substr(0, query));
  if (query != std::string::npos) resolved += target.substr(query);
  return parse_url(origin + resolved);
}

Url redirect_url(const Url& base, std::string_view location) {
  Url url;
  try {
    url = resolve_url(base, location);
  } catch (const Error& error) {
    throw Error(ErrorCode::network, fmt::format("{} leads elsewhere: {}", base.authority(), error.message()));
  }
  if (base.scheme == "https" && url.scheme == "http") {
    throw Error(ErrorCode::network,
                fmt::format("{} leads to {} without encryption, which is refused", base.authority(), url.authority()));
  }
  return url;
}

bool has_same_origin(const Url& a, const Url& b) noexcept {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost" || host.ends_with(".localhost") || host == "[::1]") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::count(host.begin(), host.end(), '.') == 3;
}

bool names_host(const std::set<std::string>& hosts, const Url& url) {
  return hosts.contains(url.host) || hosts.contains(fmt::format("{}:{}", url.host, url.port));
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string encoded;
  for (const char c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_letter || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/')) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace gpux::registry
