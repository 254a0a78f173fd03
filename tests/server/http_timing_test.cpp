// Clients that take their time, and servers that end.
#include <atomic>
#include <future>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/raw_client.h"

namespace gpux::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr milliseconds limit{200};
/// What a client sends within the limit, ten times over: it was not cut off by chance, nor by each of its pieces anew.
constexpr int max_drips = 200;

milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

void impatient(ServerOptions& options) {
  options.limits.header_timeout = limit;
  options.limits.body_timeout = limit;
  options.limits.write_timeout = limit;
  options.limits.idle_timeout = limit;
  options.limits.min_bytes_per_second = 1 << 20;
}

/// Sends `begin` and then `endless` again and again until the server answers or closes.
Answered drip(RawClient& client, std::string_view begin, std::string_view endless) {
  client.send(begin);
  int drips = 0;
  while (!client.readable(milliseconds(10)) && client.send(endless) && drips <= max_drips) ++drips;
  EXPECT_LE(drips, max_drips);
  return client.receive();
}

TEST(HttpTiming, AHeaderThatDripsIsCutOff) {
  const RunningServer running(echo, impatient);
  RawClient client(running.port());
  const auto begin = Clock::now();
  const Answered answer = drip(client, "GET / HTTP/1.1\r\n", "A: b\r\n");
  EXPECT_EQ(answer.status, 408);
  EXPECT_THAT(answer.body, HasSubstr("within 0.2 s"));
  EXPECT_GE(since(begin), limit);
}

TEST(HttpTiming, ABodyThatDripsIsCutOff) {
  const RunningServer running(echo, impatient);
  for (const char* framing : {"Content-Length: 100000", "Transfer-Encoding: chunked"}) {
    RawClient client(running.port());
    const auto begin = Clock::now();
    const Answered answer =
        drip(client, std::string("POST / HTTP/1.1\r\nHost: x\r\n") + framing + "\r\n\r\n", "1\r\nx\r\n");
    EXPECT_EQ(answer.status, 408) << framing;
    EXPECT_GE(since(begin), limit);
  }
}

TEST(HttpTiming, ALargeBodyMayTakeLongerAsLongAsItComes) {
  const RunningServer running(echo, impatient);
  RawClient client(running.port());
  const std::string body(512 << 10, 'x');
  const std::string request = post("/", body);
  const auto begin = Clock::now();
  // 1.25 MiB a second, where 1 is asked for
  for (std::size_t at = 0; at < request.size(); at += 32 << 10) {
    client.send(std::string_view(request).substr(at, 32 << 10));
    std::this_thread::sleep_until(begin + milliseconds(at * 1000 / (5 << 18)));
  }
  EXPECT_EQ(client.receive().body, body);
  EXPECT_GT(since(begin), limit);
}

TEST(HttpTiming, AnIdleConnectionIsClosedWithoutAWord) {
  const RunningServer running(echo, impatient);
  RawClient fresh(running.port());
  RawClient used(running.port());
  EXPECT_EQ(used.ask(get("/")).status, 200);
  EXPECT_EQ(used.receive_all(), "");
  EXPECT_EQ(fresh.receive_all(), "");
}

TEST(HttpTiming, AHandlerMayTakeLongerThanAllOfThat) {
  const RunningServer running(
      [](std::shared_ptr<Exchange> exchange) {
        std::thread([exchange] {
          std::this_thread::sleep_for(3 * limit);
          echo(exchange);
        }).detach();
      },
      impatient);
  RawClient client(running.port());
  EXPECT_EQ(client.ask(post("/", "abc")).body, "abc");
}

TEST(HttpTiming, AReaderThatTakesNothingIsCutOff) {
  const auto released = std::make_shared<std::atomic<bool>>(false);
  const RunningServer running(
      [released](std::shared_ptr<Exchange> exchange) {
        auto body = std::shared_ptr<std::string>(new std::string(32 << 20, 'x'), [released](const std::string* text) {
          *released = true;
          delete text;
        });
        Response response;
        response.pieces.push_back({std::as_bytes(std::span(body->data(), body->size())), body});
        exchange->respond(std::move(response));
      },
      [](ServerOptions& options) {
        impatient(options);
        options.limits.min_bytes_per_second = 32 << 20;  // what the kernel takes at once counts for some time
      });
  RawClient client(running.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return running.server->counters().connections_open == 1; }));
  EXPECT_TRUE(eventually([&] { return running.server->counters().connections_open == 0; }));
  EXPECT_TRUE(released->load());
}

TEST(HttpTiming, DrainClosesWhatIsIdleAndAnswersWhatIsNot) {
  std::promise<std::shared_ptr<Exchange>> promise;
  const RunningServer running([&](std::shared_ptr<Exchange> exchange) {
    if (exchange->request().path == "/slow") {
      promise.set_value(std::move(exchange));
    } else {
      echo(std::move(exchange));
    }
  });
  RawClient idle(running.port());
  RawClient active(running.port());
  RawClient slow(running.port());
  EXPECT_EQ(idle.ask(get("/")).status, 200);
  EXPECT_EQ(active.ask(get("/")).status, 200);
  slow.send(get("/slow"));
  const auto exchange = promise.get_future().get();
  auto drained =
      std::async(std::launch::async, [&] { return running.server->drain(Clock::now() + std::chrono::seconds(10)); });
  EXPECT_TRUE(eventually([&] {
    try {
      const RawClient late(running.port());
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
  std::this_thread::sleep_for(milliseconds(100));  // a request may have been under way for that long
  const Answered last = active.ask(get("/last"));
  EXPECT_EQ(last.body, "/last");
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_EQ(idle.receive_all(), "");
  EXPECT_EQ(drained.wait_for(milliseconds(0)), std::future_status::timeout);
  exchange->respond(Response::json(200, "slow"));
  const Answered answer = slow.receive();
  EXPECT_EQ(answer.body, "slow");
  EXPECT_EQ(answer.header("connection"), "close");
  active.close();
  slow.close();
  EXPECT_TRUE(drained.get());
  EXPECT_EQ(running.server->counters().connections_open, 0U);
}

TEST(HttpTiming, AServerThatLeavesTakesRequestsAndEndsTheirConnections) {
  const RunningServer running(echo);
  RawClient kept(running.port());
  EXPECT_EQ(kept.ask(get("/")).header("connection"), "");
  running.server->close_after_answers();
  const Answered last = kept.ask(get("/last"));
  EXPECT_EQ(last.body, "/last");
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(kept.ended(std::chrono::seconds(5)));
  RawClient late(running.port());
  EXPECT_EQ(late.ask(get("/late")).body, "/late");
  EXPECT_TRUE(late.ended(std::chrono::seconds(5)));
}

TEST(HttpTiming, DrainGivesUpAtItsDeadline) {
  std::shared_ptr<Exchange> held;
  const RunningServer running([&](std::shared_ptr<Exchange> exchange) { held = std::move(exchange); });
  RawClient client(running.port());
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return running.server->counters().requests == 1; }));
  const auto begin = Clock::now();
  EXPECT_FALSE(running.server->drain(begin + milliseconds(100)));
  EXPECT_GE(since(begin), milliseconds(100));
}

TEST(HttpTiming, DrainUnderLoadLosesNothing) {
  for (int turn = 0; turn < 3; ++turn) {
    const RunningServer running(echo);
    std::atomic<bool> lost{false};
    std::atomic<int> answered{0};
    std::vector<std::thread> threads;
    for (int index = 0; index < 8; ++index) {
      threads.emplace_back([&] {
        try {
          RawClient client(running.port());
          for (;;) {
            const Answered answer = client.ask(post("/", "abc"));
            if (answer.status != 200 || !answer.complete) {
              lost = true;
              return;
            }
            ++answered;
            if (answer.header("connection") == "close") return;
          }
        } catch (const std::runtime_error& refused) {
          EXPECT_THAT(refused.what(), HasSubstr("cannot connect"));
        }
      });
    }
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_TRUE(running.server->drain(Clock::now() + std::chrono::seconds(10)));
    for (auto& thread : threads) thread.join();
    EXPECT_FALSE(lost);
    EXPECT_GT(answered, 0);
  }
}

}  // namespace
}  // namespace gpux::http
