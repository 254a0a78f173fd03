#include "registry/http/public_address.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace gpux::registry {
namespace {

struct Range4 {
  std::uint32_t first;
  unsigned bits;
};

constexpr std::uint32_t ip(std::uint32_t a, std::uint32_t b, std::uint32_t c = 0, std::uint32_t d = 0) {
  return a << 24U | b << 16U | c << 8U | d;
}

constexpr std::array<Range4, 15> special{{
    {ip(0, 0), 8},        // this network
    {ip(10, 0), 8},       // private
    {ip(100, 64), 10},    // shared, behind a provider's NAT
    {ip(127, 0), 8},      // loopback
    {ip(169, 254), 16},   // link-local: also the metadata of clouds
    {ip(172, 16), 12},    // private
    {ip(192, 0, 0), 24},  // protocol assignments
    {ip(192, 0, 2), 24},  // documentation
    {ip(192, 88, 99), 24},
    {ip(192, 168), 16},  // private
    {ip(198, 18), 15},   // benchmarks
    {ip(198, 51, 100), 24},
    {ip(203, 0, 113), 24},
    {ip(224, 0), 4},  // groups
    {ip(240, 0), 4},  // reserved, broadcast
}};

bool is_public(std::uint32_t address) {
  return std::ranges::none_of(special, [&](const Range4& range) {
    const std::uint32_t mask = UINT32_MAX << (32U - range.bits);
    return (address & mask) == range.first;
  });
}

using Bytes6 = std::array<std::uint8_t, 16>;

std::uint32_t inner(const Bytes6& bytes, std::size_t at) {
  return ip(bytes.at(at), bytes.at(at + 1), bytes.at(at + 2), bytes.at(at + 3));
}

bool begins_with(const Bytes6& bytes, std::initializer_list<std::uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

bool is_public(const Bytes6& bytes) {
  if (begins_with(bytes, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})) return is_public(inner(bytes, 12));
  if (begins_with(bytes, {0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})) return is_public(inner(bytes, 12));
  if (begins_with(bytes, {0x20, 0x02})) return is_public(inner(bytes, 2));
  // Documentation, Teredo and others of protocols.
  if (begins_with(bytes, {0x20, 0x01, 0x0d, 0xb8}) || begins_with(bytes, {0x20, 0x01, 0x00, 0x00})) return false;
  if (begins_with(bytes, {0x3f, 0xff})) return false;
  // Only 2000::/3 is given to networks of the internet.
  return (bytes[0] & 0xe0U) == 0x20U;
}

}  // namespace

bool is_public_address(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return is_public(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  Bytes6 bytes{};
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return is_public(bytes);
}

}  // namespace gpux::registry
