#include "server/requests/browser_access.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "server/http/header_value.h"

namespace gpux::server {
namespace {

// "[::1]:8080" has the host "::1", "Localhost.:80" has "localhost". Empty where there is none.
std::string host_of(std::string_view authority) {
  std::string_view host;
  if (authority.starts_with('[')) {
    host = authority.substr(1, std::max<std::size_t>(authority.find(']'), 1) - 1);
  } else {
    host = authority.substr(0, authority.find(':'));
    if (host.ends_with('.')) host.remove_suffix(1);
  }
  return lower(host);
}

bool is_ip_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.ends_with(".localhost") || host == "::1" ||
         (host.starts_with("127.") && is_ip_address(host));
}

struct Origin {
  std::string scheme, authority;
};

// "http://localhost:3000"; empty for "null" and what is none.
std::optional<Origin> read_origin(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == 0 || colon == std::string_view::npos) return std::nullopt;
  Origin origin{lower(text.substr(0, colon)), lower(text.substr(colon + 3))};
  const bool is_plain = origin.authority.find_first_of("/?#@ \\") == std::string::npos;
  if (!is_plain || host_of(origin.authority).empty()) return std::nullopt;
  return origin;
}

bool is_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

BrowserAccess::BrowserAccess(BrowserAccessOptions options) : options_(std::move(options)) {
  for (std::string& origin : options_.cors_origins) {
    origin = lower(origin);
    if (origin != "*" && origin != "null" && !read_origin(origin)) {
      throw Error(ErrorCode::usage, format_message("{} '{}' is no origin; accepted: SCHEME://HOST[:PORT], such as "
                                                   "https://app.example.org, null, or * for all",
                                                   setting_named("cors_origin"), one_line(origin)));
    }
  }
  for (std::string& host : options_.allowed_hosts) {
    host = lower(host);
    if (host != "*" && !is_name(host)) {
      throw Error(
          ErrorCode::usage,
          format_message(
              "{} '{}' is no name of a host; accepted: a name without a port, such as models.example.org, or * for all",
              setting_named("allowed_host"), one_line(host)));
    }
  }
  options_.listen_host = lower(options_.listen_host);
  options_.machine_name = lower(options_.machine_name);
  listens_on_loopback_ = is_loopback(options_.listen_host);
}

bool BrowserAccess::is_allowed_host(std::string_view authority) const {
  const std::string host = host_of(authority);
  // A page can only change what its own name leads to, so that an address is no risk.
  if (is_ip_address(host) || is_loopback(host) || host == options_.listen_host) return true;
  // No page of the internet can have such a name.
  if (host.ends_with(".local") || host.ends_with(".internal")) return true;
  if (!options_.machine_name.empty() && host == options_.machine_name) return true;
  return std::any_of(options_.allowed_hosts.begin(), options_.allowed_hosts.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == host; });
}

std::string BrowserAccess::refusal(const BrowserRequest& request) const {
  if (options_.has_keys) return {};
  const bool is_of_allowed_page = request.origin && may_read(*request.origin);
  if (!request.host.empty() && (listens_on_loopback_ || (request.origin && !is_of_allowed_page)) &&
      !is_allowed_host(request.host)) {
    return fmt::format("the server does not accept the Host '{}' without an API key; --allowed-host adds a name",
                       one_line(request.host));
  }
  if (!request.origin || is_known_origin(request)) return {};
  return fmt::format("the server does not accept requests of pages from '{}'; --cors-origin adds an origin",
                     one_line(*request.origin));
}

bool BrowserAccess::is_known_origin(const BrowserRequest& request) const {
  return is_own_origin(request) || (request.origin && may_read(*request.origin));
}

bool BrowserAccess::is_own_origin(const BrowserRequest& request) {
  if (!request.origin) return true;
  const std::optional<Origin> origin = read_origin(*request.origin);
  return origin && origin->authority == lower(request.host);
}

bool BrowserAccess::may_read(std::string_view origin) const {
  const std::optional<Origin> read = read_origin(origin);
  if (read && (read->scheme == "http" || read->scheme == "https") && is_loopback(host_of(read->authority))) return true;
  const std::string asked = lower(origin);
  return std::any_of(options_.cors_origins.begin(), options_.cors_origins.end(),
                     [&](const std::string& allowed) { return allowed == "*" || allowed == asked; });
}

void allow_page_to_read(http::Response& answer, std::string_view origin) {
  answer.headers.add("Access-Control-Allow-Origin", origin);
  answer.headers.add("Vary", "Origin");
  answer.headers.add(
      "Access-Control-Expose-Headers",
      "X-Request-Id, X-Queue-Time, X-Inference-Time, X-Total-Time, X-Gpux-Verdict, Retry-After, traceparent");
}

std::string content_type_problem(BodyKind kind, std::string_view content_type) {
  if (kind == BodyKind::any || http::trimmed(content_type).empty()) return {};
  const std::string type = lower(http::kind_of(content_type));
  if (type == "application/json" || (type.starts_with("application/") && type.ends_with("+json"))) return {};
  // A browser asks before it sends the last two.
  for (const char* other : {"application/x-www-form-urlencoded", "application/octet-stream", "text/json"}) {
    if (type == other) return {};
  }
  if (kind == BodyKind::json_or_text && type == "text/plain") return {};
  return fmt::format("the Content-Type is '{}'; accepted: application/json{}", one_line(utf8_prefix(type, 100)),
                     kind == BodyKind::json_or_text ? ", text/plain" : "");
}

}  // namespace gpux::server
