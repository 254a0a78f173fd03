// The client against a server that answers with bytes of the test's choice.
#include "registry/http/client.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "registry/http/connection_guard.h"
#include "registry/http/url.h"
#include "registry/raw_server.h"

namespace gpux::registry {
namespace {

using test::http_answer;
using test::RawServer;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr RetryPolicy at_once{.max_attempts = 3, .first_delay = std::chrono::milliseconds(1)};

ErrorCode code_of(Client& client, const Request& request, std::string& message) {
  try {
    (void)client.send(request);
  } catch (const Error& error) {
    message = error.message();
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Client, GivesStatusHeadersAndBody) {
  const RawServer server(
      [](const auto&) { return http_answer(404, "no such thing", "X-Error-Code: EntryNotFound\r\n"); });
  Client client;
  const Response response = client.send({.url = server.url("/a?b=c#d"), .headers = {{"Accept", "text/plain"}}});
  EXPECT_EQ(response.status, 404);
  EXPECT_FALSE(response.is_success());
  EXPECT_EQ(response.headers.find("x-error-code"), "EntryNotFound");
  EXPECT_EQ(response.body, "no such thing");
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_THAT(server.requests()[0], ::testing::StartsWith("GET /a?b=c HTTP/1.1\r\n"));
  EXPECT_THAT(server.requests()[0], HasSubstr("Accept: text/plain\r\n"));
  EXPECT_THAT(server.requests()[0], HasSubstr("User-Agent: gpux/"));
}

TEST(Client, SendsEachMethodWithItsBody) {
  const ScratchFolder scratch;
  write_file_atomically(scratch.path() / "file", std::string_view("0123456789"));
  const FileRange part{.file = scratch.path() / "file", .offset = 2, .size = 5};
  const RawServer server([](const auto&) { return http_answer(200, ""); });
  Client client;
  (void)client.send({.method = Method::post, .url = server.url("/")});
  (void)client.send({.method = Method::post, .url = server.url("/"), .body = std::string("text")});
  (void)client.send({.method = Method::put, .url = server.url("/"), .body = part});
  (void)client.send({.method = Method::patch, .url = server.url("/"), .body = part});
  (void)client.send({.method = Method::remove, .url = server.url("/")});
  (void)client.send({.method = Method::head, .url = server.url("/")});
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 6U);
  const std::vector<std::pair<std::string, std::string>> expected{
      {"POST ", "\r\n\r\n"},       {"POST ", "\r\n\r\ntext"}, {"PUT ", "\r\n\r\n23456"},
      {"PATCH ", "\r\n\r\n23456"}, {"DELETE ", "\r\n\r\n"},   {"HEAD ", "\r\n\r\n"}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_THAT(requests[i], ::testing::StartsWith(expected[i].first));
    EXPECT_THAT(requests[i], ::testing::EndsWith(expected[i].second));
    EXPECT_THAT(requests[i], Not(HasSubstr("Expect:")));
    EXPECT_THAT(requests[i], Not(HasSubstr("Content-Type:")));
  }
}

TEST(Client, StreamsABodyAndARange) {
  const std::string content(1 << 20, 'x');
  const RawServer server([&](const auto&) { return http_answer(206, content, "Content-Range: bytes 5-9/20\r\n"); });
  Client client;
  std::uint64_t bytes = 0, answers = 0;
  const Response response = client.send({.url = server.url("/"),
                                         .range = ByteRange{5, 9},
                                         .on_answer =
                                             [&](const Response& answer) {
                                               EXPECT_EQ(bytes, 0U);
                                               EXPECT_EQ(answer.headers.find("content-range"), "bytes 5-9/20");
                                               ++answers;
                                             },
                                         .on_body = [&](auto piece) { bytes += piece.size(); }});
  EXPECT_EQ(answers, 1U);
  EXPECT_EQ(bytes, content.size());
  EXPECT_EQ(response.body, "");
  EXPECT_THAT(server.requests()[0], HasSubstr("Range: bytes=5-9\r\n"));
}

TEST(Client, LeavesTheAuthorizationOutAfterARedirectToAnotherHost) {
  RawServer other([](const auto&) { return http_answer(200, "content"); });
  RawServer server([&](const std::string& request) {
    if (request.starts_with("GET /again ")) return http_answer(302, "", "Location: " + other.url("/x") + "\r\n");
    return http_answer(307, "", "Location: again\r\n");
  });
  Client client;
  const Response response = client.send({.url = server.url("/first"), .authorization = "Bearer secret"});
  EXPECT_EQ(response.body, "content");
  EXPECT_EQ(response.url, other.url("/x"));
  EXPECT_EQ(response.redirects.size(), 2U);
  ASSERT_EQ(server.requests().size(), 2U);
  for (const std::string& request : server.requests()) EXPECT_THAT(request, HasSubstr("Bearer secret"));
  ASSERT_EQ(other.requests().size(), 1U);
  EXPECT_THAT(other.requests()[0], Not(HasSubstr("secret")));
}

TEST(Client, ReturnsARedirectThatIsNotToBeFollowedAndRefusesALoop) {
  const RawServer server([&](const auto&) { return http_answer(302, "", "Location: /\r\n"); });
  Client client;
  EXPECT_EQ(client.send({.url = server.url("/"), .max_redirects = 0}).status, 302);
  std::string message;
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .max_redirects = 3}, message), ErrorCode::network);
  EXPECT_THAT(message, HasSubstr("more than 3 times"));
}

TEST(Client, RepeatsAfterFailuresOfTheMoment) {
  std::size_t count = 0;
  const RawServer server([&](const auto&) {
    ++count;
    if (count == 1) return http_answer(503, "", "Retry-After: 0\r\n");
    return count == 2 ? std::string() : http_answer(200, "at last");
  });
  std::vector<std::string> reasons;
  Client client({.on_retry = [&](const std::string& reason, auto) { reasons.push_back(reason); }});
  EXPECT_EQ(client.send({.url = server.url("/"), .retry = at_once}).body, "at last");
  EXPECT_EQ(server.requests().size(), 3U);
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_THAT(reasons[0], HasSubstr("answers 503"));
}

TEST(Client, RepeatsNeitherAPostThatWasCutNorABodyThatWasGiven) {
  const RawServer server([&](const std::string& request) {
    if (request.starts_with("POST")) return std::string();
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
  });
  Client client;
  std::string message, got;
  EXPECT_EQ(code_of(client, {.method = Method::post, .url = server.url("/"), .retry = at_once}, message),
            ErrorCode::network);
  EXPECT_EQ(server.requests().size(), 1U);
  const auto take = [&](std::span<const std::byte> piece) {
    got.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  };
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .on_body = take, .retry = at_once}, message), ErrorCode::network);
  EXPECT_EQ(got, "only this");
  EXPECT_EQ(server.requests().size(), 2U);
  // What is kept in memory is asked for again.
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .retry = at_once}, message), ErrorCode::network);
  EXPECT_EQ(server.requests().size(), 5U);
}

TEST(Client, RepeatsAPostThatDoesNoHarmTwice) {
  for (const int status : {0, 408, 429, 500, 502, 503, 504}) {
    std::size_t count = 0;
    const RawServer server([&](const auto&) {
      if (++count > 1) return http_answer(202, "");
      return status == 0 ? std::string() : http_answer(status, "");
    });
    Client client;
    const Request request{.method = Method::post,
                          .url = server.url("/"),
                          .body = std::string("text"),
                          .retry = at_once,
                          .is_repeatable = true};
    EXPECT_EQ(client.send(request).status, 202) << status;
    ASSERT_EQ(server.requests().size(), 2U) << status;
    EXPECT_THAT(server.requests()[1], ::testing::EndsWith("\r\n\r\ntext"));
  }
}

TEST(Client, SendsASecretBodyToItsOwnHostAlone) {
  RawServer other([](const auto&) { return http_answer(200, "stolen"); });
  RawServer server([&](const std::string& request) {
    if (request.starts_with("POST /same ")) return http_answer(307, "", "Location: /here\r\n");
    if (request.starts_with("POST /here ")) return http_answer(200, "good");
    return http_answer(307, "", "Location: " + other.url("/") + "\r\n");
  });
  Client client;
  Request request{.method = Method::post, .url = server.url("/same"), .body = std::string("secret")};
  request.has_secret_body = true;
  EXPECT_EQ(client.send(request).body, "good");
  request.url = server.url("/elsewhere");
  std::string message;
  EXPECT_EQ(code_of(client, request, message), ErrorCode::network);
  EXPECT_THAT(message, HasSubstr("credentials are not sent"));
  EXPECT_TRUE(other.requests().empty());
}

TEST(Client, SaysThatAHeaderDoesNotEnd) {
  const RawServer server([](const auto&) { return "HTTP/1.1 200 OK\r\nX: " + std::string(8 << 20, 'a'); });
  Client client;
  std::string message;
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .retry = {.max_attempts = 1}}, message), ErrorCode::network);
  EXPECT_THAT(message, Not(HasSubstr("emory")));
  EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("header of the answer is too long"), HasSubstr("Too large")));
}

// A server that sends one byte now and then does not stall, and would keep the client for ever.
TEST(Client, EndsATransferThatIsTooSlow) {
  const RawServer server([](const auto&) { return http_answer(200, std::string(100'000, 'x')); },
                         std::chrono::milliseconds(10));
  Client client({.stall_timeout = std::chrono::seconds(1), .min_bytes_per_second = 10'000});
  std::string message;
  std::uint64_t bytes = 0;
  const auto take = [&](std::span<const std::byte> piece) { bytes += piece.size(); };
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .on_body = take, .retry = {.max_attempts = 1}}, message),
            ErrorCode::network);
  EXPECT_THAT(message, HasSubstr("too slow"));
  EXPECT_LT(bytes, 100'000U);
}

TEST(Client, GivesADocumentItsTime) {
  const RawServer server([](const auto&) { return http_answer(200, std::string(100'000, 'x')); },
                         std::chrono::milliseconds(10));
  Client client({.min_bytes_per_second = 1, .document_timeout = std::chrono::seconds(1)});
  std::string message;
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .retry = at_once}, message), ErrorCode::network);
  EXPECT_THAT(message, HasSubstr("timed out"));
  EXPECT_EQ(server.requests().size(), 1U) << "it would be as slow again";
}

/// A variable of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }

  ~Variable() { ::unsetenv(name_); }

  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// What is sent to this machine without encryption, since nobody can listen, goes to no other.
TEST(Client, AsksThisMachineWithoutAProxy) {
  const RawServer proxy([](const auto&) { return http_answer(200, "of the proxy"); });
  const RawServer server([](const auto&) { return http_answer(200, "here"); });
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    const Variable variable(name, proxy.url("/"));
    Client client;
    for (const char* host : {"127.0.0.1", "localhost"}) {
      EXPECT_EQ(client.send({.url = server.url("/", host), .authorization = "Basic c2VjcmV0"}).body, "here") << name;
    }
    EXPECT_EQ(client.send({.url = "http://registry.example/"}).body, "of the proxy") << name;
  }
  EXPECT_EQ(proxy.requests().size(), 4U);
}

TEST(Client, BoundsABodyInMemory) {
  const RawServer server([&](const std::string& request) {
    return http_answer(request.starts_with("GET /good") ? 200 : 403, std::string(1 << 20, 'x'));
  });
  Client client;
  std::string message;
  EXPECT_EQ(code_of(client, {.url = server.url("/good"), .limit_body_bytes = 1000}, message), ErrorCode::network);
  EXPECT_THAT(message, HasSubstr("more than 1000 bytes"));
  EXPECT_EQ(client.send({.url = server.url("/bad"), .limit_body_bytes = 1000}).body.size(), 1000U);
}

TEST(Client, ThrowsWhatACallbackThrows) {
  const RawServer server([&](const auto&) { return http_answer(200, "content"); });
  Client client;
  std::string message;
  const Request request{.url = server.url("/"),
                        .on_body = [](auto) { throw Error(ErrorCode::storage, "the disk is full"); }};
  EXPECT_EQ(code_of(client, request, message), ErrorCode::storage);
  EXPECT_EQ(message, "the disk is full");
}

TEST(Client, EndsWhenItIsCancelledAndWhenATransferStalls) {
  std::stop_source stop;
  std::atomic<bool> is_over = false;
  const RawServer server([&](const auto&) {
    for (int i = 0; i < 400 && !is_over; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::string();
  });
  std::string message;
  {
    Client client({.stall_timeout = std::chrono::seconds(1)});
    EXPECT_EQ(code_of(client, {.url = server.url("/"), .retry = {.max_attempts = 1}}, message), ErrorCode::network);
    EXPECT_THAT(message, HasSubstr("GET " + server.url("/") + " failed:"));
  }
  Client client({.cancellation = Cancellation(stop.get_token())});
  std::thread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  EXPECT_EQ(code_of(client, {.url = server.url("/")}, message), ErrorCode::interrupted);
  is_over = true;
  stopping.join();
}

TEST(Client, SaysThatNobodyListens) {
  std::string url;
  {
    const RawServer server([](const auto&) { return std::string(); });
    url = server.url("/path?signature=secret");
  }
  Client client;
  std::string message;
  EXPECT_EQ(code_of(client, {.url = url}, message), ErrorCode::network);
  EXPECT_THAT(message, HasSubstr("/path?… failed: "));
  EXPECT_THAT(message, HasSubstr("https_proxy"));
  EXPECT_THAT(message, Not(HasSubstr("secret")));
}

TEST(Client, SendsNoHeaderWithALineBreak) {
  const RawServer server([](const auto&) { return http_answer(200, ""); });
  Client client;
  std::string message;
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .authorization = "Bearer a\r\nX: y"}, message), ErrorCode::usage);
  EXPECT_TRUE(server.requests().empty());
}

// For what somebody else asks for.
TEST(Client, ReachesPublicAddressesAloneAndThoseThatAreExcepted) {
  const RawServer server([](const auto&) { return http_answer(200, "here"); });
  const std::string authority = parse_url(server.url("/")).authority();
  Client excepted(ClientOptions{.only_public_and = std::set<std::string>{authority}});
  EXPECT_EQ(excepted.send({.url = server.url("/")}).body, "here");
  Client client(ClientOptions{.only_public_and = std::set<std::string>{}});
  const std::string port = authority.substr(authority.find(':'));
  for (const std::string host : {"127.0.0.1", "localhost", "2130706433", "0x7f.1", "0.0.0.0", "[::1]",
                                 "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"}) {
    std::string message;
    EXPECT_EQ(code_of(client, {.url = "http://" + host + port + "/", .retry = at_once}, message), ErrorCode::permission)
        << host << ": " << message;
    EXPECT_THAT(message, HasSubstr("is an address of this machine or of a private network")) << host;
  }
  EXPECT_EQ(server.requests().size(), 1U);
}

// A name or a redirect of a stranger leads where it likes.
TEST(Client, IsNotLedToAPrivateAddressByARedirect) {
  const RawServer target([](const auto&) { return http_answer(200, "secret"); });
  const RawServer server(
      [&](const auto&) { return http_answer(302, "", "Location: " + target.url("/secret") + "\r\n"); });
  Client client(ClientOptions{.only_public_and = std::set<std::string>{parse_url(server.url("/")).authority()}});
  std::string message;
  EXPECT_EQ(code_of(client, {.url = server.url("/"), .retry = at_once}, message), ErrorCode::permission);
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_TRUE(target.requests().empty());
}

TEST(ConnectionGuard, JudgesTheAddressThatANameLeadsTo) {
  ConnectionGuard guard(parse_url("https://models.example/"), {});
  const auto address = [](std::uint32_t host) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(host);
    return v4;
  };
  const sockaddr_in there = address(0x01010101), here = address(0x7f000001);
  EXPECT_TRUE(guard.may_connect(reinterpret_cast<const sockaddr&>(there)));
  EXPECT_NO_THROW(guard.check());
  EXPECT_FALSE(guard.may_connect(reinterpret_cast<const sockaddr&>(here)));
  EXPECT_THROW(guard.check(), Error);
}

}  // namespace
}  // namespace gpux::registry
