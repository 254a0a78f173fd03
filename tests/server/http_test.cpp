// Requests and answers: what is taken, what is refused, and who may leave when.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/raw_client.h"

namespace gpux::http {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Keeps exchanges until the test lets them go.
class Held {
 public:
  Handler handler() {
    return [this](std::shared_ptr<Exchange> exchange) {
      const std::lock_guard lock(mutex_);
      exchanges_.push_back(std::move(exchange));
      changed_.notify_all();
    };
  }

  std::shared_ptr<Exchange> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [this] { return !exchanges_.empty(); })) return nullptr;
    auto exchange = std::move(exchanges_.front());
    exchanges_.erase(exchanges_.begin());
    return exchange;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

TEST(Http, AConnectionServesRequestAfterRequest) {
  const RunningServer running(echo);
  RawClient client(running.port());
  for (int turn = 0; turn < 3; ++turn) {
    const Answered answer = client.ask(post("/", "body " + std::to_string(turn)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "body " + std::to_string(turn));
    EXPECT_EQ(answer.header("connection"), "");
    EXPECT_THAT(answer.header("date"), testing::MatchesRegex("..., .. ... .... ..:..:.. GMT"));
  }
  EXPECT_EQ(running.server->counters().connections_accepted, 1U);
  EXPECT_EQ(running.server->counters().requests, 3U);
}

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    // The first ones take the longest.
    std::thread([exchange] {
      const std::string path = exchange->request().path;
      std::this_thread::sleep_for(std::chrono::milliseconds(path == "/0" ? 20 : 1));
      exchange->respond(Response::json(200, path));
    }).detach();
  });
  RawClient client(running.port());
  std::string requests;
  for (int index = 0; index < 20; ++index) requests += post("/" + std::to_string(index), std::string(3000, 'x'));
  client.send(requests);
  for (int index = 0; index < 20; ++index) EXPECT_EQ(client.receive().body, "/" + std::to_string(index));
}

TEST(Http, ARequestMayComeByteByByte) {
  const RunningServer running(echo);
  RawClient client(running.port());
  for (const char byte : post("/", "abc")) client.send({&byte, 1});
  EXPECT_EQ(client.receive().body, "abc");
}

TEST(Http, HeadIsAnsweredLikeGetWithoutTheBody) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    EXPECT_EQ(exchange->request().method, "GET");
    exchange->respond(Response::json(200, exchange->request().is_head ? "head" : "other"));
  });
  RawClient client(running.port());
  const Answered answer = client.ask("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n", true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-length"), "4");
  EXPECT_EQ(client.ask(get("/b")).body, "other");
}

TEST(Http, TheRequestIsShownAsItWasMeant) {
  const auto began = std::chrono::steady_clock::now();
  const RunningServer running([began](std::shared_ptr<Exchange> exchange) {
    const Request& request = exchange->request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v2/models/a%2Fb/%C3%BC?timeout=5&name=x+y%21&empty");
    EXPECT_EQ(request.path, "/v2/models/a/b/\xC3\xBC");
    EXPECT_THAT(request.segments(), ElementsAre("v2", "models", "a/b", "\xC3\xBC"));
    EXPECT_EQ(request.query_parameter("timeout"), "5");
    EXPECT_EQ(request.query_parameter("name"), "x y!");
    EXPECT_EQ(request.query_parameter("empty"), "");
    EXPECT_EQ(request.query_parameter("missing"), std::nullopt);
    EXPECT_EQ(request.headers["x-own"], "value of it");
    EXPECT_EQ(request.headers.count("X-TWICE"), 2U);
    EXPECT_EQ(request.headers.find("absent"), std::nullopt);
    EXPECT_THAT(*request.peer, testing::StartsWith("127.0.0.1:"));
    EXPECT_GE(request.arrived, began);
    EXPECT_LE(request.arrived, std::chrono::steady_clock::now());
    exchange->respond(Response::json(201, "{}"));
  });
  RawClient client(running.port());
  EXPECT_EQ(client
                .ask(post("/v2/models/a%2Fb/%C3%BC?timeout=5&name=x+y%21&empty", "{}",
                          "X-Own:  value of it \r\nX-Twice: 1\r\nx-twice: 2\r\n"))
                .status,
            201);
}

TEST(Http, AnAbsoluteTargetMeansItsPath) {
  const RunningServer running(echo);
  RawClient client(running.port());
  EXPECT_EQ(client.ask(get("http://x:1/a?b")).body, "/a");
  EXPECT_EQ(client.ask(get("http://x")).body, "/");
}

struct Malformed {
  std::string name;
  std::string request;
  int status;
  std::string message;
};

class MalformedRequest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedRequest, IsRefusedInOneLineAndTheConnectionClosed) {
  const RunningServer running(echo, [](ServerOptions& options) { options.limits.max_header_bytes = 1024; });
  RawClient client(running.port());
  const Answered answer = client.ask(GetParam().request);
  EXPECT_EQ(answer.status, GetParam().status);
  EXPECT_THAT(answer.body, AllOf(testing::StartsWith("{\"error\": \""), HasSubstr(GetParam().message),
                                 Not(HasSubstr("boost")), Not(HasSubstr("beast"))));
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(client.ended(std::chrono::seconds(5)));
  EXPECT_EQ(RawClient(running.port()).ask(get("/alive")).body, "/alive");
}

const std::string long_value(2000, 'x');

INSTANTIATE_TEST_SUITE_P(
    Http, MalformedRequest,
    testing::Values(
        Malformed{"NoMethod", " / HTTP/1.1\r\n\r\n", 400, "method"},
        Malformed{"Binary", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), 400, "method"},
        Malformed{"NoVersion", "GET /\r\nHost: x\r\n\r\n", 400, "request line"},
        Malformed{"OldVersion", "GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
        Malformed{"NewVersion", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
        Malformed{"NoPath", "GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "path"},
        Malformed{"Tunnel", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "path"},
        Malformed{"Escape", "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "percent"},
        Malformed{"HalfAnEscape", "GET /%4 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "percent"},
        Malformed{"Nul", "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "percent"},
        Malformed{"NoUtf8", "GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400, "percent"},
        Malformed{"DotSegment", "GET /a/%2e%2e/b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "'..'"},
        Malformed{"NoHost", "GET / HTTP/1.1\r\n\r\n", 400, "Host"},
        Malformed{"TwoHosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "Host"},
        Malformed{"NoColon", "GET / HTTP/1.1\r\nHost x\r\n\r\n", 400, "header field"},
        Malformed{"BlankBeforeColon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "header field"},
        Malformed{"BareLineFeed", "GET / HTTP/1.1\nHost: x\n\n", 505, "HTTP/1.1"},
        Malformed{"NulInValue", std::string("GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 34), 400, "header field"},
        Malformed{"LongField", "GET / HTTP/1.1\r\nHost: x\r\nA: " + long_value + "\r\n\r\n", 431, "longer than 1024"},
        Malformed{"LongTarget", "GET /" + long_value + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "longer than 1024"},
        Malformed{"LengthNoNumber", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\na", 400, "Content-Length"},
        Malformed{"LengthSigned", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", 400, "Content-Length"},
        Malformed{"LengthNegative", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na", 400, "Content-Length"},
        Malformed{"LengthOverflows", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551617\r\n\r\na", 400,
                  "Content-Length"},
        Malformed{"LengthsDiffer", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                  400, "Content-Length"},
        Malformed{"LengthAndChunked",
                  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
                  "Transfer-Encoding"},
        Malformed{"ChunkedAndLength",
                  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400,
                  "Transfer-Encoding"},
        Malformed{"ChunkedTwice",
                  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
                  "Transfer-Encoding"},
        Malformed{"ChunkedInDisguise", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 501,
                  "'chunked'"},
        Malformed{"ChunkedNotLast", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 501,
                  "'chunked'"},
        Malformed{"ChunkedWithOther", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501,
                  "'chunked'"},
        Malformed{"IdentityAndLength",
                  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\na", 501,
                  "'chunked'"},
        Malformed{"ChunkedInOldVersion", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
                  "HTTP/1.0"},
        Malformed{"Expectation", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: a miracle\r\n\r\n", 417,
                  "Expect"}),
    [](const auto& named) { return named.param.name; });

TEST(Http, FieldsThatDripInCannotPassTheLimitOfTheHeader) {
  const RunningServer running(echo, [](ServerOptions& options) { options.limits.max_header_bytes = 2048; });
  RawClient client(running.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n");
  bool open = true;
  for (int index = 0; index < 2000 && open; ++index) open = client.send("A: b\r\n") && !client.ended({});
  EXPECT_EQ(client.receive().status, 431);
}

TEST(Http, LineEndsBeforeARequestAreForgiven) {
  const RunningServer running(echo);
  RawClient client(running.port());
  EXPECT_EQ(client.ask("\r\n\r\n" + get("/a")).body, "/a");
  EXPECT_EQ(client.ask("\r\n" + get("/b")).body, "/b");
}

TEST(Http, TheConnectionEndsWhereTheClientWantsIt) {
  const RunningServer running(echo);
  RawClient client(running.port());
  const Answered answer = client.ask(get("/", "Connection: close\r\n"));
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(client.ended(std::chrono::seconds(5)));
}

TEST(Http, Http10ClientsAreServed) {
  const RunningServer running(echo);
  RawClient once(running.port());
  EXPECT_EQ(once.ask("GET /a HTTP/1.0\r\n\r\n").body, "/a");
  EXPECT_TRUE(once.ended(std::chrono::seconds(5)));
  RawClient more(running.port());
  const std::string request = "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  EXPECT_EQ(more.ask(request).header("connection"), "keep-alive");
  EXPECT_EQ(more.ask(request).body, "/a");
}

TEST(Http, AResponseMayHaveNoBody) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    Response response;
    response.status = 204;
    exchange->respond(std::move(response));
  });
  RawClient client(running.port());
  for (int turn = 0; turn < 2; ++turn) {
    const Answered answer = client.ask(get("/"));
    EXPECT_EQ(answer.status, 204);
    EXPECT_EQ(answer.header("content-length"), "");
  }
}

TEST(Http, TheFramingOfTheAnswerIsTheTransports) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    Response response = Response::json(200, "four");
    response.headers.add("Content-Length", "3");
    response.headers.add("X-Own", "yes");
    EXPECT_ANY_THROW(response.headers.add("X", "a\r\nInjected: b"));
    EXPECT_ANY_THROW(response.headers.add("X: y", "a"));
    exchange->respond(std::move(response));
  });
  RawClient client(running.port());
  const Answered answer = client.ask(get("/"));
  EXPECT_EQ(answer.header("content-length"), "4");
  EXPECT_EQ(answer.header("x-own"), "yes");
  EXPECT_EQ(answer.body, "four");
}

TEST(Http, TextAndPiecesAreGathered) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    Response response = Response::json(200, "head|");
    for (int index = 0; index < 200; ++index) response.pieces.push_back(Piece::of(std::to_string(index) + ","));
    response.pieces.emplace_back();
    response.pieces.push_back(Piece::lasting("end"));
    exchange->respond(std::move(response));
  });
  std::string expected = "head|";
  for (int index = 0; index < 200; ++index) expected += std::to_string(index) + ",";
  EXPECT_EQ(RawClient(running.port()).ask(get("/")).body, expected + "end");
}

TEST(Http, OnlyTheFirstAnswerCounts) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    exchange->respond(Response::json(200, "first"));
    exchange->respond(Response::json(500, "second"));
    exchange->start(Response::json(500, "third"));
    EXPECT_EQ(exchange->write(Piece::of("fourth")), Exchange::Flow::gone);
    exchange->finish();
  });
  RawClient client(running.port());
  EXPECT_EQ(client.ask(get("/")).body, "first");
  EXPECT_EQ(client.ask(get("/")).body, "first");
}

TEST(Http, AHandlerThatFailsOrForgetsIsAnsweredFor) {
  const RunningServer running([](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().path == "/throw") throw std::runtime_error("secret");
    if (exchange->request().path == "/status") exchange->respond(Response::json(99, "{}"));
  });
  RawClient client(running.port());
  for (const char* path : {"/throw", "/forget", "/status"}) {
    const Answered answer = client.ask(get(path));
    EXPECT_EQ(answer.status, 500) << path;
    EXPECT_THAT(answer.body, AllOf(HasSubstr("error"), Not(HasSubstr("secret")))) << path;
  }
}

TEST(Http, AdmissionRefusesBeforeTheBodyIsRead) {
  std::atomic<int> handled{0};
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        ++handled;
        echo(std::move(exchange));
      },
      nullptr,
      [](const Request& request) -> std::optional<Response> {
        EXPECT_TRUE(request.body.bytes.empty());
        if (request.headers["Authorization"] == "yes") return std::nullopt;
        return Response::error(401, "a key is needed");
      });
  RawClient client(running.port());
  EXPECT_EQ(client.ask(get("/")).status, 401);
  EXPECT_EQ(client.ask(get("/", "Authorization: yes\r\n")).status, 200);
  const Answered refused = client.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(running.server->counters().requests_refused, 2U);
}

TEST(Http, AnswersComeFromAnyThread) {
  Held held;
  const RunningServer running(held.handler());
  RawClient client(running.port());
  client.send(get("/a"));
  const auto exchange = held.next();
  ASSERT_TRUE(exchange);
  std::vector<std::thread> threads;
  for (int index = 0; index < 8; ++index) {
    threads.emplace_back([&] { exchange->respond(Response::json(200, "[]")); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(client.receive().body, "[]");
  EXPECT_EQ(client.receive_some(1, std::chrono::milliseconds(20)), "");
}

enum class Leaving : int { closes, resets };

class ClientLeaves : public testing::TestWithParam<std::tuple<Leaving, bool>> {};

TEST_P(ClientLeaves, TheHandlerIsToldOnceAndMayStillAnswer) {
  const auto [leaving, over_unix] = GetParam();
  const auto path = std::filesystem::path(testing::TempDir()) / fmt::format("leaves-{}.sock", ::getpid());
  Held held;
  const RunningServer running(held.handler(), [&](ServerOptions& options) { options.unix_path = path; });
  auto client = over_unix ? std::make_unique<RawClient>(path) : std::make_unique<RawClient>(running.port());
  client->send(post("/", "body"));
  const auto exchange = held.next();
  ASSERT_TRUE(exchange);
  std::atomic<int> told{0};
  exchange->on_gone([&] { ++told; });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(told, 0);
  if (leaving == Leaving::closes) client->close();
  if (leaving == Leaving::resets) client->reset();
  EXPECT_TRUE(eventually([&] { return told == 1; }));
  EXPECT_TRUE(eventually([&] { return running.server->counters().connections_open == 0; }));
  exchange->respond(Response::json(200, "{}"));
  EXPECT_EQ(text_of(exchange->request().body), "body");
  int told_late = 0;
  exchange->on_gone([&] { ++told_late; });
  EXPECT_EQ(told_late, 1);
  EXPECT_EQ(told, 1);
}

INSTANTIATE_TEST_SUITE_P(Http, ClientLeaves,
                         testing::Combine(testing::Values(Leaving::closes, Leaving::resets), testing::Bool()));

TEST(Http, AClientThatLeavesWithMoreRequestsSentIsNoticed) {
  Held held;
  const RunningServer running(held.handler(), [](ServerOptions& options) {
    options.limits.header_timeout = std::chrono::milliseconds(200);  // and with it the interval of the looks
  });
  RawClient client(running.port());
  client.send(get("/a"));
  const auto exchange = held.next();
  ASSERT_TRUE(exchange);
  std::atomic<bool> told{false};
  exchange->on_gone([&] { told = true; });
  client.send(get("/b"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(told);
  client.reset();
  EXPECT_TRUE(eventually([&] { return told.load(); }));
}

class HalfClosed : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(HalfClosed, ClientsAreAnswered) {
  const auto& [version, over_unix] = GetParam();
  const auto path = std::filesystem::path(testing::TempDir()) / fmt::format("half-{}.sock", ::getpid());
  Held held;
  const RunningServer running(held.handler(), [&](ServerOptions& options) { options.unix_path = path; });
  auto client = over_unix ? std::make_unique<RawClient>(path) : std::make_unique<RawClient>(running.port());
  client->send("GET /a HTTP/" + version + "\r\nHost: x\r\n\r\n");
  client->shut_down_sending();
  const auto exchange = held.next();
  ASSERT_TRUE(exchange);
  std::atomic<int> told{0};
  exchange->on_gone([&] { ++told; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(told, 0);
  exchange->respond(Response::json(200, "late"));
  EXPECT_EQ(client->receive().body, "late");
  EXPECT_TRUE(client->ended(std::chrono::seconds(5)));
  EXPECT_EQ(told, 0);
}

INSTANTIATE_TEST_SUITE_P(Http, HalfClosed, testing::Combine(testing::Values("1.1", "1.0"), testing::Bool()));

TEST(Http, AClientThatClosesItsSendingSideAndLeavesLaterIsNoticed) {
  Held held;
  const RunningServer running(held.handler());
  RawClient client(running.port());
  client.send(get("/a"));
  client.shut_down_sending();
  const auto exchange = held.next();
  ASSERT_TRUE(exchange);
  std::atomic<bool> told{false};
  exchange->on_gone([&] { told = true; });
  EXPECT_THAT(client.receive_some(100), HasSubstr("100 Continue"));
  EXPECT_FALSE(told);
  client.reset();
  EXPECT_TRUE(eventually([&] { return told.load(); }));
}

TEST(Http, AWholeAnswerIsNeverFollowedByTheNewsThatTheClientLeft) {
  std::atomic<int> told{0};
  const RunningServer running([&](std::shared_ptr<Exchange> exchange) {
    exchange->on_gone([&] { ++told; });
    echo(std::move(exchange));
  });
  for (int turn = 0; turn < 50; ++turn) EXPECT_EQ(RawClient(running.port()).ask(get("/a")).status, 200);
  EXPECT_TRUE(eventually([&] { return running.server->counters().connections_open == 0; }));
  EXPECT_EQ(told, 0);
}

TEST(Http, AnExchangeOutlivesItsServer) {
  Held held;
  std::shared_ptr<Exchange> exchange;
  std::atomic<int> told{0};
  std::unique_ptr<RawClient> client;
  {
    const RunningServer running(held.handler());
    client = std::make_unique<RawClient>(running.port());
    client->send(post("/", "kept"));
    exchange = held.next();
    ASSERT_TRUE(exchange);
    exchange->on_gone([&] { ++told; });
  }
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(client->ended(std::chrono::seconds(5)));
  EXPECT_EQ(text_of(exchange->request().body), "kept");
  exchange->respond(Response::json(200, "{}"));
}

TEST(Http, ManyClientsAtOnceGetEachTheirOwnAnswer) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    if (exchange->request().body.bytes.size() % 2 == 0) return echo(std::move(exchange));
    std::thread([exchange] { echo(exchange); }).detach();
  });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int index = 0; index < 16; ++index) {
    threads.emplace_back([&, index] {
      RawClient client(running.port());
      for (int turn = 0; turn < 20; ++turn) {
        const std::string body = std::string(static_cast<std::size_t>(turn + 1), 'a') + std::to_string(index);
        right += client.ask(post("/", body)).body == body ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 16 * 20);
}

}  // namespace
}  // namespace gpux::http
