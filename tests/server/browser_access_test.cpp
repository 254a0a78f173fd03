#include "server/requests/browser_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

using testing::HasSubstr;

TEST(BrowserAccess, AcceptsClientsAndPagesOfThisMachine) {
  struct Line {
    const char* listen_host;
    const char* host;    ///< empty: none
    const char* origin;  ///< null: none
    const char* refusal;
  };

  constexpr const char* by_host = "does not accept the Host";
  constexpr const char* by_origin = "does not accept requests of pages";
  for (const Line& line : std::vector<Line>{
           // Programs, which send no Origin.
           {"127.0.0.1", "127.0.0.1:8080", nullptr, ""},
           {"127.0.0.1", "localhost:8080", nullptr, ""},
           {"127.0.0.1", "LocalHost.", nullptr, ""},
           {"127.0.0.1", "gpux.localhost:8080", nullptr, ""},
           {"127.0.0.1", "app.localhost", nullptr, ""},  // browsers resolve it to loopback: RFC 6761
           {"127.0.0.1", "[::1]:8080", nullptr, ""},
           {"127.0.0.1", "192.168.1.7:8080", nullptr, ""},
           {"127.0.0.1", "builder:8080", nullptr, ""},
           {"127.0.0.1", "app.example.org", nullptr, ""},
           {"127.0.0.1", "host.docker.internal:8080", nullptr, ""},
           {"0.0.0.0", "box.local:8080", "http://box.local:8080", ""},
           {"127.0.0.1", "", nullptr, ""},
           {"localhost", "localhost:8080", nullptr, ""},
           {"0.0.0.0", "gpux.models.svc.cluster.local:8080", nullptr, ""},
           {"192.168.1.7", "models:8080", nullptr, ""},
           // A name of somebody else that leads to this machine.
           {"127.0.0.1", "evil.example:8080", nullptr, by_host},
           {"::1", "evil.example:8080", nullptr, by_host},
           {"127.0.0.1", "evil.example:8080", "http://evil.example:8080", by_host},
           {"127.0.0.1", "127.0.0.1.evil.example:8080", nullptr, by_host},
           {"127.0.0.1", "evillocalhost:8080", nullptr, by_host},
           {"127.0.0.1", "localhost.evil.com:8080", nullptr, by_host},
           {"0.0.0.0", "evil.example:8080", "http://evil.example:8080", by_host},
           // Pages of others.
           {"127.0.0.1", "127.0.0.1:8080", "https://evil.example", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "null", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "chrome-extension://abcdef", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "http://localhost.evil.example", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "http://evillocalhost:3000", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "http://evil.example@localhost", by_origin},
           {"0.0.0.0", "192.168.1.7:8080", "http://192.168.1.9:8080", by_origin},
           {"127.0.0.1", "127.0.0.1:8080", "https://app.example.org:8443", by_origin},
           // Pages of this machine, of the server itself, and those that --cors-origin names.
           {"127.0.0.1", "127.0.0.1:8080", "http://localhost:3000", ""},
           {"127.0.0.1", "127.0.0.1:8080", "http://app.localhost:3000", ""},
           {"127.0.0.1", "127.0.0.1:8080", "https://127.0.0.1", ""},
           {"127.0.0.1", "127.0.0.1:8080", "http://[::1]:5173", ""},
           {"0.0.0.0", "192.168.1.7:8080", "http://192.168.1.7:8080", ""},
           {"0.0.0.0", "app.example.org", "https://app.example.org", ""},
           {"127.0.0.1", "127.0.0.1:8080", "https://page.example", ""},
           {"127.0.0.1", "127.0.0.1:8080", "HTTPS://Page.example", ""},
           {"0.0.0.0", "gpux.models.svc:8080", "https://page.example", ""},
       }) {
    SCOPED_TRACE(std::string(line.listen_host) + " " + line.host + " " + (line.origin == nullptr ? "-" : line.origin));
    BrowserAccessOptions options{.cors_origins = {"https://page.example"},
                                 .allowed_hosts = {"app.example.org"},
                                 .listen_host = line.listen_host,
                                 .machine_name = "builder",
                                 .has_keys = false};
    const BrowserRequest request{line.host, line.origin == nullptr ? std::optional<std::string_view>() : line.origin};
    const std::string refusal = BrowserAccess(options).refusal(request);
    if (*line.refusal == '\0') {
      EXPECT_EQ(refusal, "");
    } else {
      EXPECT_THAT(refusal, HasSubstr(line.refusal));
    }
    // A key is what a page of a stranger does not have.
    options.has_keys = true;
    EXPECT_EQ(BrowserAccess(options).refusal(request), "");
  }
}

TEST(BrowserAccess, EverythingIsAcceptedWhereTheUserSaysSo) {
  const BrowserAccess access({.cors_origins = {"*"}, .allowed_hosts = {"*"}, .machine_name = {}});
  EXPECT_EQ(access.refusal({"evil.example", "https://evil.example"}), "");
  EXPECT_EQ(access.refusal({"evil.example", "null"}), "");
  EXPECT_TRUE(access.may_read("null"));
  EXPECT_FALSE(BrowserAccess({.cors_origins = {"https://page.example"}, .machine_name = {}}).may_read("null"));
  EXPECT_FALSE(BrowserAccess().may_read("https://page.example"));
  EXPECT_TRUE(BrowserAccess().may_read("http://localhost:3000"));
}

TEST(BrowserAccess, ThePageOfTheServerHasItsSchemeAndHost) {
  EXPECT_TRUE(BrowserAccess::is_own_origin({"localhost:8080", std::nullopt}));
  EXPECT_TRUE(BrowserAccess::is_own_origin({"Localhost:8080", "http://localhost:8080"}));
  EXPECT_TRUE(BrowserAccess::is_own_origin({"models.example.org", "https://models.example.org"}));
  for (const char* origin : {"http://localhost:3000", "http://127.0.0.1:8080", "null", ""}) {
    EXPECT_FALSE(BrowserAccess::is_own_origin({"localhost:8080", origin})) << origin;
  }
}

TEST(BrowserAccess, WhatIsNoOriginOrHostIsRefusedByTheNameOfItsFlag) {
  for (const char* origin : {"", "page.example", "https://", "https://page.example/path", "https://*.example/"}) {
    try {
      const BrowserAccess access({.cors_origins = {origin}, .machine_name = {}});
      ADD_FAILURE() << origin;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr("cors_origin '" + std::string(origin) + "'"));
    }
  }
  for (const char* host : {"", "https://models.example", "models.example:8080", "a b"}) {
    try {
      const BrowserAccess access({.allowed_hosts = {host}, .machine_name = {}});
      ADD_FAILURE() << host;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr("allowed_host '" + std::string(host) + "'"));
    }
  }
}

TEST(BrowserAccess, ABodyOfAnotherTypeIsRefused) {
  for (const char* type : {"", " ", "application/json", "Application/JSON; charset=utf-8", "application/ld+json",
                           "application/octet-stream", "text/json", "application/x-www-form-urlencoded"}) {
    EXPECT_EQ(content_type_problem(BodyKind::json, type), "") << type;
    EXPECT_EQ(content_type_problem(BodyKind::json_or_text, type), "") << type;
  }
  EXPECT_EQ(content_type_problem(BodyKind::json, "text/plain;charset=UTF-8"),
            "the Content-Type is 'text/plain'; accepted: application/json");
  EXPECT_EQ(content_type_problem(BodyKind::json_or_text, "text/plain;charset=UTF-8"), "");
  EXPECT_EQ(content_type_problem(BodyKind::json_or_text, "text/html"),
            "the Content-Type is 'text/html'; accepted: application/json, text/plain");
  EXPECT_NE(content_type_problem(BodyKind::json, "multipart/form-data; boundary=x"), "");
  EXPECT_EQ(content_type_problem(BodyKind::any, "image/png"), "");
}

}  // namespace
}  // namespace gpux::server
