#include "registry/oci/remote_reference.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::oci {
namespace {

const std::string digest(64, 'a');

TEST(RemoteReference, ReadsRegistriesRepositoriesTagsAndDigests) {
  struct Case {
    std::string text;
    RemoteReference reference;
    std::string selector, stored;
  };

  const std::vector<Case> cases{
      {"ghcr.io/team/digits:1.0.0", {"ghcr.io", "team/digits", "1.0.0", ""}, "1.0.0", "ghcr.io/team/digits:1.0.0"},
      {"localhost/digits", {"localhost", "digits", "latest", ""}, "latest", "localhost/digits:latest"},
      {"host:5000/a/b/c", {"host:5000", "a/b/c", "latest", ""}, "latest", "host:5000/a/b/c:latest"},
      {"h.io/m@sha256:" + digest, {"h.io", "m", "", digest}, "sha256:" + digest, "h.io/m:sha256-" + digest},
      {"h.io/m:2@sha256:" + digest, {"h.io", "m", "2", digest}, "sha256:" + digest, "h.io/m:2"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    const RemoteReference reference = parse_remote_reference(one.text);
    EXPECT_EQ(reference, one.reference);
    EXPECT_EQ(reference.selector(), one.selector);
    EXPECT_EQ(reference.stored_name().text(), one.stored);
    EXPECT_EQ(parse_remote_reference(reference.text()), reference);
  }
}

TEST(RemoteReference, RefusesTheRest) {
  for (const std::string& text :
       {std::string(), std::string("digits"), std::string("team/digits"), std::string("./h/digits"),
        std::string("h.io/"), std::string("h.io/Team/x"), std::string("h.io/x@sha256:abc"), std::string("h.io/x@md5:1"),
        "h.io/x@sha256:" + digest + "0", std::string("https://h.io/x"), std::string("h.io:123456/x"),
        std::string("h.io/x:"), std::string("h.io/../x")}) {
    EXPECT_THROW(parse_remote_reference(text), Error) << text;
  }
}

TEST(RemoteReference, OnlyLoopbackIsLoopback) {
  for (const char* registry : {"localhost", "localhost:5000", "a.localhost:1", "127.0.0.1:5000", "127.9.9.9"}) {
    EXPECT_TRUE(is_loopback(registry)) << registry;
  }
  for (const char* registry :
       {"127.0.0.1.evil.example", "localhost.example", "notlocalhost:1", "10.0.0.1", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback(registry)) << registry;
  }
}

TEST(RemoteReference, DockersHubHasAnotherHost) {
  EXPECT_EQ(api_host("docker.io"), "registry-1.docker.io");
  EXPECT_EQ(api_host("ghcr.io"), "ghcr.io");
}

}  // namespace
}  // namespace gpux::oci
