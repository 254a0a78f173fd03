#include "registry/http/public_address.h"

#include <cstring>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace gpux::registry {
namespace {

bool is_public(const char* text) {
  sockaddr_storage address{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (::inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, text, &v6->sin6_addr), 1) << text;
    v6->sin6_family = AF_INET6;
  }
  return is_public_address(reinterpret_cast<const sockaddr&>(address));
}

TEST(PublicAddress, IsOfTheInternet) {
  for (const char* text :
       {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.17.255.255", "198.20.0.0",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::"}) {
    EXPECT_TRUE(is_public(text)) << text;
  }
}

TEST(PublicAddress, IsNoneOfAMachineANetworkOrALink) {
  for (const char* text : {"0.0.0.0",
                           "10.0.0.1",
                           "100.64.0.1",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.8",
                           "192.168.1.1",
                           "198.18.0.1",
                           "224.0.0.1",
                           "239.1.1.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "fe80::1",
                           "fc00::1",
                           "fd12:3456::1",
                           "ff02::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "64:ff9b::7f00:1",
                           "2002:7f00:1::",
                           "2002:a00:1::",
                           "2001:db8::1",
                           "2001::1",
                           "64:ff9b:1::1",
                           "100::1"}) {
    EXPECT_FALSE(is_public(text)) << text;
  }
}

TEST(PublicAddress, IsNoneOfAnotherFamily) {
  sockaddr_storage address{};
  address.ss_family = AF_UNIX;
  EXPECT_FALSE(is_public_address(reinterpret_cast<const sockaddr&>(address)));
}

}  // namespace
}  // namespace gpux::registry
