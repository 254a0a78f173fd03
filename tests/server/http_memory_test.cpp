// What bodies and answers take of the memory budget, and who loses when it is used up.
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/metrics/rendered_page.h"
#include "server/raw_client.h"

namespace gpux::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kib = 1 << 10;
constexpr std::uint64_t mib = 1 << 20;

std::string head_of(std::uint64_t length, const std::string& fields = "") {
  return "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(length) + "\r\n" + fields + "\r\n";
}

std::function<void(ServerOptions&)> with_memory(std::uint64_t bytes, std::uint64_t slow_bytes_per_second = mib) {
  return [=](ServerOptions& options) {
    options.memory = std::make_shared<MemoryBudget>(bytes);
    options.limits.slow_bytes_per_second = slow_bytes_per_second;
  };
}

void answer_with(Exchange& exchange, std::size_t size) {
  Response response;
  response.text = std::string(size, 'x');
  exchange.respond(std::move(response));
}

TEST(HttpMemory, AnnouncedBodiesTakeNothingBeforeTheyArrive) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) { answer_with(*exchange, 10); }, with_memory(mib));
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int index = 0; index < 16; ++index) {
    idle.push_back(std::make_unique<RawClient>(running.port()));
    idle.back()->send(head_of(64 * mib));
  }
  EXPECT_TRUE(eventually([&] { return running.server->counters().requests == 16; }));
  EXPECT_EQ(running.server->counters().held_bytes, 0U);
  EXPECT_EQ(RawClient(running.port()).ask(post("/", std::string(800 * kib, 'x'))).status, 200);
}

TEST(HttpMemory, ABodyTakesWhatHasArrivedAndAStep) {
  const RunningServer running(echo);

  struct Line {
    std::uint64_t sent, least, most;
  };

  for (const Line& line :
       {Line{1, 1, 32 * kib}, Line{100 * kib, 100 * kib, 200 * kib + 32 * kib}, Line{10 * mib, 10 * mib, 11 * mib}}) {
    RawClient client(running.port());
    client.send(head_of(64 * mib) + std::string(line.sent, 'x'));
    const auto held = [&] { return running.server->counters().held_bytes; };
    EXPECT_TRUE(eventually([&] { return held() >= line.least; })) << held();
    EXPECT_LE(held(), line.most);
    client.reset();
    EXPECT_TRUE(eventually([&] { return held() == 0; }));
  }
}

TEST(HttpMemory, BodiesOfAllSizesStayWhatTheyAre) {
  const RunningServer running(echo);
  for (const std::size_t size : {32 * kib - 1, 32 * kib, 32 * kib + 1, 5 * mib, 33 * mib + 7}) {
    RawClient client(running.port());
    std::string body(size, '\0');
    for (std::size_t at = 0; at < size; ++at) body[at] = static_cast<char>(at % 251);
    std::thread sender([&] { client.send(post("/", body)); });
    EXPECT_TRUE(client.receive().body == body) << size;
    sender.join();
  }
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 0; }));
}

TEST(HttpMemory, AdmissionBoundsABodyAsSentAndDecompressed) {
  const RunningServer running(echo, nullptr, [](const Request&) {
    Admitted admitted;
    admitted.max_body_bytes = 4096;
    return admitted;
  });
  EXPECT_EQ(RawClient(running.port()).ask(post("/", std::string(4096, 'x'))).status, 200);
  const std::string zip = "Content-Encoding: gzip\r\n";
  EXPECT_EQ(RawClient(running.port()).ask(post("/", compressed(std::string(4096, 'x'), 31), zip)).status, 200);
  const std::string chunks = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n" +
                             std::string(4097, 'x') + "\r\n0\r\n\r\n";
  for (const std::string& request :
       {head_of(4097), head_of(64 * mib), chunks, post("/", compressed(std::string(4097, 'x'), 31), zip)}) {
    const Answered answer = RawClient(running.port()).ask(request);
    EXPECT_EQ(answer.status, 413);
    EXPECT_THAT(answer.body, HasSubstr("larger than 4096 bytes"));
  }
}

TEST(HttpMemory, AFastBeginningEarnsABodyNoLongPause) {
  const RunningServer running(echo, [](ServerOptions& options) {
    options.limits.body_timeout = milliseconds(100);
    options.limits.min_bytes_per_second = 1;
  });
  RawClient client(running.port());
  client.send(head_of(2 * mib) + std::string(mib, 'x'));
  EXPECT_EQ(client.receive().status, 408);
}

TEST(HttpMemory, AStalledBodyIsGivenUpForOthers) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) { answer_with(*exchange, 10); }, with_memory(mib));
  RawClient stalled(running.port());
  stalled.send(head_of(2 * mib) + std::string(700 * kib, 'x'));
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes >= 700 * kib; }));
  // Before body_timeout, which is 10 seconds.
  EXPECT_TRUE(
      eventually([&] { return RawClient(running.port()).ask(post("/", std::string(600 * kib, 'x'))).status == 200; }));
  const Answered answer = stalled.receive();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("too slowly"));
}

TEST(HttpMemory, AReaderThatTakesNothingIsGivenUpForOthers) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) { answer_with(*exchange, 12 * mib); },
                              with_memory(20 * mib));
  RawClient stalled(running.port(), 4096);
  stalled.send(get("/"));
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 12 * mib; }));
  EXPECT_TRUE(eventually([&] { return RawClient(running.port()).ask(get("/")).status == 200; }));
  EXPECT_FALSE(stalled.receive().complete);
  EXPECT_EQ(running.server->counters().cut_off_for_memory, 1U);
}

TEST(HttpMemory, AnswersThatWaitTakeOfTheBudget) {
  const RunningServer running(
      [](std::shared_ptr<Exchange> exchange) {
        answer_with(*exchange, exchange->request().path == "/large" ? 12 * mib : 10);
      },
      with_memory(20 * mib, 0));
  RawClient reader(running.port(), 4096);
  reader.send(get("/large"));
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 12 * mib; }));
  RawClient other(running.port());
  const Answered refused = other.ask(get("/large"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_THAT(refused.body, HasSubstr("memory"));
  EXPECT_EQ(other.ask(get("/small")).status, 200);
  EXPECT_EQ(reader.receive().body.size(), 12 * mib);
  EXPECT_TRUE(eventually([&] { return running.server->counters().held_bytes == 0; }));
  EXPECT_EQ(other.ask(get("/large")).status, 200);
}

TEST(HttpMemory, AnAnswerIsCutOffAtTheDeadlineOfItsRequest) {
  const RunningServer running([](std::shared_ptr<Exchange> exchange) {
    Response response;
    response.text = std::string(12 * mib, 'x');
    response.deadline = Clock::now();
    exchange->respond(std::move(response));
  });
  RawClient client(running.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return running.server->counters().handled == 1; }));
  // Before write_timeout, which is 10 seconds.
  EXPECT_TRUE(eventually([&] { return running.server->counters().connections_open == 0; }));
  EXPECT_FALSE(client.receive().complete);
  EXPECT_EQ(running.server->counters().cut_off_at_deadline, 1U);
}

TEST(HttpMemory, WhoPipelinesWaitsForOthersAfterEachRequest) {
  constexpr int pipelined = 200;
  std::vector<std::string> order;
  std::unique_ptr<RawClient> other;
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        // On the only thread, so that what the other sends is there before the next request is read.
        if (exchange->request().path == "/first") other->send(get("/other"));
        order.push_back(exchange->request().path);
        echo(std::move(exchange));
      },
      [](ServerOptions& options) { options.threads = 1; });
  other = std::make_unique<RawClient>(running.port());
  EXPECT_EQ(other->ask(get("/before")).status, 200);
  RawClient client(running.port());
  std::string text = get("/first");
  for (int index = 1; index < pipelined; ++index) text += get("/p");
  client.send(text);
  for (int index = 0; index < pipelined; ++index) EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(other->receive().status, 200);
  ASSERT_EQ(order.size(), pipelined + 2U);
  const auto place = std::find(order.begin(), order.end(), "/other") - order.begin();
  EXPECT_LE(place, 10);
}

TEST(RenderedPage, IsSharedByRequestsThatCameBeforeItWasRendered) {
  server::RenderedPage page;
  int rendered = 0;
  const auto render = [&] { return std::to_string(++rendered); };
  const Clock::time_point before = Clock::now();
  EXPECT_EQ(page.not_before(before, render).text(), "1");
  for (int index = 0; index < 100; ++index) EXPECT_EQ(page.not_before(before, render).text(), "1");
  EXPECT_EQ(page.not_before(Clock::now() + milliseconds(1), render).text(), "2");
  EXPECT_EQ(rendered, 2);
}

}  // namespace
}  // namespace gpux::http
