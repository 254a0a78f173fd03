#include "registry/http/connection_guard.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/home.h"
#include "base/in_quotes.h"
#include "gpux/error.h"
#include "registry/http/public_address.h"

namespace gpux::registry {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses look_up(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, ::freeaddrinfo};
}

std::string without_brackets(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string(host);
}

bool is_same(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET) {
    sockaddr_in left{}, right{};
    std::memcpy(&left, &a, sizeof left);
    std::memcpy(&right, &b, sizeof right);
    return left.sin_port == right.sin_port && left.sin_addr.s_addr == right.sin_addr.s_addr;
  }
  if (a.sa_family != AF_INET6) return false;
  sockaddr_in6 left{}, right{};
  std::memcpy(&left, &a, sizeof left);
  std::memcpy(&right, &b, sizeof right);
  return left.sin6_port == right.sin6_port &&
         std::memcmp(&left.sin6_addr, &right.sin6_addr, sizeof left.sin6_addr) == 0;
}

// "http://user:password@proxy.example:3128/" has the host and the port; libcurl takes 1080 where there is none.
bool is_of_proxy(std::string proxy, const sockaddr& address) {
  std::string port = "1080";
  if (const auto scheme = proxy.find("://"); scheme != std::string::npos) {
    if (proxy.starts_with("https:")) port = "443";
    proxy.erase(0, scheme + 3);
  }
  proxy.resize(std::min(proxy.find('/'), proxy.size()));
  if (const auto at = proxy.rfind('@'); at != std::string::npos) proxy.erase(0, at + 1);
  if (const auto colon = proxy.rfind(':'); colon != std::string::npos && proxy.find(']', colon) == std::string::npos) {
    port = proxy.substr(colon + 1);
    proxy.resize(colon);
  }
  const Addresses found = look_up(without_brackets(proxy), port, 0);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    if (is_same(*one->ai_addr, address)) return true;
  }
  return false;
}

bool is_of_a_proxy(const sockaddr& address) {
  constexpr std::array names{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  return std::ranges::any_of(names, [&](const char* name) {
    const std::string proxy = environment_variable(name);
    return !proxy.empty() && is_of_proxy(proxy, address);
  });
}

}  // namespace

ConnectionGuard::ConnectionGuard(const Url& url, const std::set<std::string>& excepted)
    : authority_(url.authority()), is_excepted_(names_host(excepted, url)) {
  if (is_excepted_) return;
  if (is_loopback(url.host)) refuse();
  // In all the forms that numbers have: 2130706433 is 127.0.0.1.
  const Addresses literal = look_up(without_brackets(url.host), std::to_string(url.port), AI_NUMERICHOST);
  if (literal && !is_public_address(*literal->ai_addr)) refuse();
}

bool ConnectionGuard::may_connect(const sockaddr& address) {
  const bool may = is_excepted_ || is_public_address(address) || is_of_a_proxy(address);
  has_refused_ = has_refused_ || !may;
  return may;
}

void ConnectionGuard::check() const {
  if (has_refused_) refuse();
}

void ConnectionGuard::refuse() const {
  throw Error(
      ErrorCode::permission,
      fmt::format("{} is an address of this machine or of a private network, which requests to a server may not "
                  "reach; --private-registry {} of gpux serve accepts it",
                  in_quotes(authority_), authority_));
}

}  // namespace gpux::registry
