// Bodies: their framing, codings, sizes, and where they lie in memory.
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "server/raw_client.h"

namespace gpux::http {
namespace {

using testing::HasSubstr;

std::string chunked(std::string_view body, std::size_t chunk, std::string_view fields = "") {
  std::string request = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + std::string(fields) + "\r\n";
  while (!body.empty()) {
    const std::string_view part = body.substr(0, chunk);
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", part.size());
    request.append(size).append(part).append("\r\n");
    body.remove_prefix(part.size());
  }
  return request + "0\r\n\r\n";
}

std::string some_text(std::size_t size) {
  std::string text;
  for (std::uint32_t value = 1; text.size() < size; value = value * 1664525U + 1013904223U) {
    text += std::to_string(value) + " ";
  }
  text.resize(size);
  return text;
}

void small_limits(ServerOptions& options) {
  options.limits.max_body_bytes = 10'000;
  options.limits.max_decompressed_bytes = 20'000;
}

TEST(HttpBody, ExpectationsAreMetBeforeTheBody) {
  const RunningServer running(echo);
  RawClient client(running.port());
  const std::string request = post("/", "later", "Expect: 100-continue\r\n");
  client.send(request.substr(0, request.size() - 5));
  EXPECT_EQ(client.receive_some(100), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ask("later").body, "later");
}

TEST(HttpBody, WhatIsTooLargeIsRefusedBeforeItIsSent) {
  const RunningServer running(echo, small_limits);
  RawClient client(running.port());
  const Answered answer =
      client.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10001\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("larger than 10000 bytes"));
  EXPECT_TRUE(client.ended(std::chrono::seconds(5)));
}

TEST(HttpBody, SizesUpToTheLimitAreTaken) {
  const RunningServer running(echo, small_limits);
  for (const std::size_t size : {1U, 63U, 64U, 65U, 9'999U, 10'000U}) {
    RawClient client(running.port());
    const std::string body = some_text(size);
    EXPECT_EQ(client.ask(post("/", body)).body, body);
    for (const std::size_t chunk : {1U, 7U, 4096U, 20'000U}) EXPECT_EQ(client.ask(chunked(body, chunk)).body, body);
  }
}

TEST(HttpBody, ARefusalReachesAClientThatIsStillSending) {
  const RunningServer running(echo, small_limits);
  for (const std::string& request :
       {post("/", std::string(4 << 20, 'x')), chunked(std::string(4 << 20, 'x'), 70'000)}) {
    RawClient client(running.port());
    EXPECT_TRUE(client.send(request)) << "the connection was reset, and the answer perhaps lost";
    EXPECT_EQ(client.receive().status, 413);
  }
  EXPECT_EQ(running.server->counters().held_bytes, 0U);
}

TEST(HttpBody, ALargeBodyArrivesWhole) {
  const RunningServer running(echo);
  RawClient client(running.port());
  const std::string body = some_text(5 << 20);
  std::thread sender([&] { client.send(post("/", body)); });
  const Answered answer = client.receive();
  sender.join();
  EXPECT_EQ(answer.body, body);
}

TEST(HttpBody, TheSizeOfAChunkCannotOverflow) {
  const RunningServer running(echo, small_limits);
  for (const char* chunk :
       {"ffffffffffffffff\r\nx", "fffffffffffffffff\r\nx", "-1\r\nx", "\r\nx", "1 2\r\nx\r\n", "1;\nx\r\n", "1\nx\r\n",
        "1\r\nxx\r\n", "1\r\nx\n0\r\n\r\n", "g\r\n", "0\r\nA: b\n\r\n", "0\r\n\rx"}) {
    RawClient client(running.port());
    client.send(std::string("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n") + chunk +
                std::string(11'000, 'x'));
    const int status = client.receive().status;
    EXPECT_TRUE(status == 400 || status == 413) << chunk << " gave " << status;
  }
}

TEST(HttpBody, ExtensionsAndTrailersAreSkippedUpToALimit) {
  const RunningServer running(echo, [](ServerOptions& options) { options.limits.max_header_bytes = 1024; });
  const std::string begin = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawClient client(running.port());
  EXPECT_EQ(client.ask(begin + "3;name=\"value\"\r\nabc\r\n0;last\r\nA: b\r\nC: d\r\n\r\n").body, "abc");
  EXPECT_EQ(client.ask(begin + "3 ; x\r\nabc\r\n0\r\n\r\n").body, "abc");
  EXPECT_EQ(RawClient(running.port()).ask(begin + "3;" + std::string(2000, 'x') + "\r\nabc\r\n").status, 400);
  std::string trailers;
  for (int index = 0; index < 500; ++index) trailers += "A: b\r\n";
  EXPECT_EQ(RawClient(running.port()).ask(begin + "0\r\n" + trailers + "\r\n").status, 400);
}

TEST(HttpBody, AFloodOfTinyChunksTakesNoMoreMemoryThanItsBytes) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    exchange->respond(Response::json(200, std::to_string(exchange->request().body.bytes.size())));
  });
  RawClient client(running.port());
  client.ask(get("/"));
  const std::uint64_t before = resident_bytes();
  client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string portion;
  for (int index = 0; index < 10'000; ++index) portion += "1\r\nx\r\n";
  for (int index = 0; index < 50; ++index) client.send(portion);
  EXPECT_EQ(client.ask("0\r\n\r\n").body, "500000");
  EXPECT_LT(resident_bytes(), before + (16U << 20U));
}

TEST(HttpBody, BodiesTogetherAreBounded) {
  std::shared_ptr<const void> kept;
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        if (exchange->request().path == "/keep") kept = exchange->request().body.owner;
        echo(std::move(exchange));
      },
      [](ServerOptions& options) { options.memory = std::make_shared<MemoryBudget>(10'000); });
  RawClient client(running.port());
  EXPECT_EQ(client.ask(post("/", std::string(9'000, 'x'))).status, 200);
  EXPECT_EQ(client.ask(post("/keep", std::string(6'000, 'x'))).status, 200);
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 6'000; }));
  const Answered refused = client.ask(post("/", std::string(9'000, 'x')));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  RawClient other(running.port());
  EXPECT_EQ(other.ask(post("/", std::string(4'000, 'x'))).status, 200);
  EXPECT_EQ(RawClient(running.port()).ask(chunked(std::string(9'000, 'x'), 100)).status, 503);
  kept.reset();
  EXPECT_EQ(other.ask(post("/", std::string(9'000, 'x'))).status, 200);
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 0; }));
}

TEST(HttpBody, TensorsBehindTheHeaderLieAligned) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    const auto& body = exchange->request().body.bytes;
    std::size_t header = 0;
    if (const auto field = exchange->request().headers.find("Inference-Header-Content-Length")) {
      header = static_cast<std::size_t>(std::atoll(std::string(*field).c_str()));
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(body.data() + header) % body_alignment, 0U) << header;
    for (std::size_t index = 0; index < body_padding; ++index)
      EXPECT_EQ(body.data()[body.size() + index], std::byte{0});
    echo(std::move(exchange));
  });
  RawClient client(running.port());
  const std::string body = some_text(70'000);
  EXPECT_EQ(client.ask(post("/", body)).body, body);
  for (const char* length : {"0", "1", "63", "64", "133", "69999"}) {
    const std::string field = std::string("Inference-Header-Content-Length: ") + length + "\r\n";
    EXPECT_EQ(client.ask(post("/", body, field)).body, body);
    EXPECT_EQ(client.ask(chunked(body, 1000, field)).body, body);
    EXPECT_EQ(client.ask(post("/", compressed(body, 31), field + "Content-Encoding: gzip\r\n")).body, body);
  }
}

struct Coded {
  std::string name;
  std::string coding;
  std::string body;
  int status;
  std::string answer;
};

class CodedBody : public testing::TestWithParam<Coded> {};

TEST_P(CodedBody, IsUndoneOrRefused) {
  const RunningServer running(echo, small_limits);
  const std::string field = "Content-Encoding: " + GetParam().coding + "\r\n";
  for (const std::string& request :
       {post("/", GetParam().body, field), chunked(GetParam().body, 1, field), chunked(GetParam().body, 999, field)}) {
    const Answered answer = RawClient(running.port()).ask(request);
    EXPECT_EQ(answer.status, GetParam().status);
    EXPECT_THAT(answer.body, HasSubstr(GetParam().answer));
  }
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 0; }));
}

const std::string plain = some_text(15'000);

std::string damaged(std::string text) {
  text[text.size() - 5] = static_cast<char>(text[text.size() - 5] ^ 1);  // the checksum
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Http, CodedBody,
    testing::Values(Coded{"Identity", "identity", "abc", 200, "abc"},
                    Coded{"Gzip", "gzip", compressed(plain, 31), 200, plain},
                    Coded{"GzipByItsOldName", "X-GZip", compressed(plain, 31), 200, plain},
                    Coded{"Deflate", "deflate", compressed(plain, 15), 200, plain},
                    Coded{"BareDeflate", "deflate", compressed(plain, -15), 200, plain},
                    Coded{"GzipMembers", "gzip", compressed("one", 31) + compressed("two", 31), 200, "onetwo"},
                    Coded{"GzipOfNothing", "gzip", compressed("", 31), 200, "/"},
                    Coded{"UpToTheLimit", "gzip", compressed(std::string(20'000, 'x'), 31), 200,
                          std::string(20'000, 'x')},
                    Coded{"BeyondTheLimit", "gzip", compressed(std::string(20'001, 'x'), 31), 413, "decompressed"},
                    Coded{"Bomb", "gzip", compressed(std::string(5 << 20, 'x'), 31), 413, "decompressed"},
                    Coded{"DeflateBomb", "deflate", compressed(std::string(5 << 20, 'x'), 15), 413, "decompressed"},
                    Coded{"Truncated", "gzip", compressed(plain, 31).substr(0, 1000), 400, "incomplete"},
                    Coded{"WithoutItsEnd", "gzip", compressed(plain, 31).substr(0, compressed(plain, 31).size() - 1),
                          400, "incomplete"},
                    Coded{"Damaged", "gzip", damaged(compressed(plain, 31)), 400, "Content-Encoding"},
                    Coded{"NotGzip", "gzip", "this is plain text", 400, "Content-Encoding"},
                    Coded{"Trailing", "gzip", compressed("one", 31) + "garbage", 400, "Content-Encoding"},
                    Coded{"TrailingDeflate", "deflate", compressed("one", 15) + "garbage", 400, "Content-Encoding"},
                    Coded{"Brotli", "br", "abc", 415, "gzip, deflate and identity"},
                    Coded{"Twice", "gzip, gzip", "abc", 415, "gzip, deflate and identity"}),
    [](const auto& named) { return named.param.name; });

TEST(HttpBody, ABombTakesNoMoreMemoryThanTheLimit) {
  const RunningServer running(echo, [](ServerOptions& options) { options.limits.max_decompressed_bytes = 1 << 20; });
  const std::string bomb = compressed(std::string(60 << 20, 'x'), 31);
  RawClient(running.port()).ask(get("/"));
  const std::uint64_t before = peak_resident_bytes();
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(RawClient(running.port()).ask(post("/", bomb, "Content-Encoding: gzip\r\n")).status, 413);
  }
  // Half of the bomb: what a sanitizer keeps of freed memory counts here too.
  EXPECT_LT(peak_resident_bytes(), before + (30U << 20U));
}

struct Accepted {
  std::string name;
  std::string accept;
  std::string type;
  Compression compression;
  std::size_t size;
  bool expected;
};

class AnswerCoding : public testing::TestWithParam<Accepted> {};

TEST_P(AnswerCoding, IsGzipOnlyWhereItIsWantedAndPays) {
  const Accepted& param = GetParam();
  const std::string text = some_text(param.size);
  const RunningServer running([&](std::shared_ptr<Exchange> exchange) {
    Response response;
    response.headers.add("Content-Type", param.type);
    response.text = text.substr(0, text.size() / 2);
    response.pieces.push_back(Piece::of(text.substr(text.size() / 2)));
    response.compression = param.compression;
    exchange->respond(std::move(response));
  });
  RawClient client(running.port());
  for (int turn = 0; turn < 2; ++turn) {
    const Answered answer =
        client.ask(get("/", param.accept.empty() ? "" : "Accept-Encoding: " + param.accept + "\r\n"));
    EXPECT_EQ(answer.header("content-encoding"), param.expected ? "gzip" : "");
    EXPECT_EQ(param.expected ? uncompressed(answer.body) : answer.body, text);
  }
}

constexpr std::size_t large = 200'000;

INSTANTIATE_TEST_SUITE_P(
    Http, AnswerCoding,
    testing::Values(Accepted{"Json", "gzip", "application/json", Compression::automatic, large, true},
                    Accepted{"Listed", "deflate, GZip;q=0.5, br", "application/json; charset=utf-8",
                             Compression::automatic, large, true},
                    Accepted{"Any", "*", "text/plain", Compression::automatic, large, true},
                    Accepted{"NotAsked", "", "application/json", Compression::automatic, large, false},
                    Accepted{"Refused", "gzip;q=0, *", "application/json", Compression::automatic, large, false},
                    Accepted{"AnyRefused", "*;q=0.0", "application/json", Compression::automatic, large, false},
                    Accepted{"Other", "br, gzipped", "application/json", Compression::automatic, large, false},
                    Accepted{"Small", "gzip", "application/json", Compression::automatic, 1000, false},
                    Accepted{"Binary", "gzip", "application/octet-stream", Compression::automatic, large, false},
                    Accepted{"BinaryOnDemand", "gzip", "application/octet-stream", Compression::always, large, true},
                    Accepted{"SmallOnDemand", "gzip", "text/plain", Compression::always, 1000, true},
                    Accepted{"Never", "gzip", "application/json", Compression::never, large, false}),
    [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace gpux::http
