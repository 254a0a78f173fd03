// Answers that are written as they come about.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/raw_client.h"

namespace gpux::http {
namespace {

using testing::HasSubstr;

Response event_stream() {
  Response head;
  head.headers.add("Content-Type", "text/event-stream");
  return head;
}

TEST(HttpStream, PiecesGoOutAsTheyCome) {
  std::shared_ptr<Exchange> exchange;
  std::atomic<bool> there{false};
  const RunningServer running([&](std::shared_ptr<Exchange> given) {
    exchange = std::move(given);
    there = true;
  });
  RawClient client(running.port());
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return there.load(); }));
  Response head = event_stream();
  head.text = "data: 0\n\n";
  exchange->start(std::move(head));
  std::string seen;
  while (seen.find("data: 0") == std::string::npos) seen += client.receive_some(4096);
  EXPECT_THAT(seen, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(seen, HasSubstr("\r\n\r\n9\r\ndata: 0\n\n\r\n"));
  EXPECT_EQ(exchange->write(Piece::of("data: 1\n\n")), Exchange::Flow::go);
  seen.clear();
  while (seen.size() < 14) seen += client.receive_some(4096);
  EXPECT_EQ(seen, "9\r\ndata: 1\n\n\r\n");
  exchange->finish();
  EXPECT_EQ(client.receive_some(100), "0\r\n\r\n");
  EXPECT_EQ(exchange->write(Piece::of("more")), Exchange::Flow::gone);
  there = false;
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return there.load(); }));
  exchange->respond(Response::json(200, "[]"));
  EXPECT_EQ(client.receive().body, "[]");
}

TEST(HttpStream, IsCutOffAtTheDeadlineOfItsRequest) {
  struct Line {
    const char* producer;
    bool goes_on;
  };

  for (const Line& line : {Line{"says nothing more", false}, Line{"never ends", true}}) {
    SCOPED_TRACE(line.producer);
    std::atomic<bool> gone{false};
    std::thread producer;
    {
      const RunningServer running([&](const std::shared_ptr<Exchange>& exchange) {
        Response head = event_stream();
        head.text = "data: 0\n\n";
        head.deadline = std::chrono::steady_clock::now();
        exchange->on_gone([&] { gone = true; });
        exchange->start(std::move(head));
        producer = std::thread([exchange, &line, &gone] {
          while (!gone) {
            if (line.goes_on) exchange->write(Piece::of("data: 1\n\n"));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        });
      });
      RawClient client(running.port());
      client.send(get("/"));
      const Answered answer = client.receive();
      EXPECT_EQ(answer.status, 200);
      EXPECT_FALSE(answer.complete);
      EXPECT_TRUE(eventually([&] { return gone.load(); }));
      EXPECT_EQ(running.server->counters().cut_off_at_deadline, 1U);
    }
    gone = true;
    if (producer.joinable()) producer.join();
  }
}

TEST(HttpStream, TheWholeMayBeWrittenAtOnce) {
  const RunningServer running([](const std::shared_ptr<Exchange>& exchange) {
    exchange->start(event_stream());
    for (int index = 0; index < 100; ++index) exchange->write(Piece::of(std::to_string(index) + "\n"));
    exchange->write(Piece::of(""));
    exchange->finish();
  });
  RawClient client(running.port());
  std::string expected;
  for (int index = 0; index < 100; ++index) expected += std::to_string(index) + "\n";
  for (int turn = 0; turn < 2; ++turn) {
    const Answered answer = client.ask(get("/"));
    EXPECT_EQ(answer.body, expected);
    EXPECT_EQ(answer.header("content-type"), "text/event-stream");
  }
  const Answered old = client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(old.body, expected);
  EXPECT_EQ(old.header("transfer-encoding"), "");
  EXPECT_EQ(old.header("connection"), "close");
  RawClient head(running.port());
  EXPECT_EQ(head.ask("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", true).status, 200);
  EXPECT_EQ(head.ask(get("/")).body, expected);
}

/// Writes `count` pieces from a thread of its own, as fast as the client takes them.
class Producer {
 public:
  Producer(std::shared_ptr<Exchange> exchange, int count, std::size_t size) : exchange_(std::move(exchange)) {
    exchange_->on_room([this] {
      const std::lock_guard lock(mutex_);
      room_ = true;
      changed_.notify_one();
    });
    thread_ = std::thread([this, count, size] { run(count, size); });
  }

  ~Producer() { thread_.join(); }

  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  std::atomic<std::uint64_t> written{0};
  std::atomic<int> waits{0};
  std::atomic<bool> was_cut_off{false};
  std::atomic<bool> ended{false};

 private:
  void run(int count, std::size_t size) {
    exchange_->start(event_stream());
    for (int index = 0; index < count && !was_cut_off; ++index) {
      {
        const std::lock_guard lock(mutex_);
        room_ = false;
      }
      const auto flow = exchange_->write(Piece::of(std::string(size, 'x')));
      if (flow == Exchange::Flow::gone) was_cut_off = true;
      written += size;
      if (flow != Exchange::Flow::wait) continue;
      ++waits;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return room_; });
    }
    exchange_->finish();
    ended = true;
    exchange_.reset();
  }

  std::shared_ptr<Exchange> exchange_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool room_ = false;
  std::thread thread_;
};

TEST(HttpStream, ASlowReaderHoldsTheProducerBack) {
  std::shared_ptr<Producer> producer;
  std::atomic<bool> there{false};
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        producer = std::make_shared<Producer>(std::move(exchange), 512, 64 << 10);
        there = true;
      },
      [](ServerOptions& options) { options.limits.stream_queue_bytes = 128 << 10; });
  RawClient client(running.port(), 64 << 10);
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return there.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(producer->ended);
  EXPECT_LT(producer->written, 16U << 20U);
  EXPECT_EQ(client.receive().body.size(), std::size_t{512} * (64 << 10));
  EXPECT_TRUE(eventually([&] { return producer->ended.load(); }));
  EXPECT_FALSE(producer->was_cut_off);
  EXPECT_GT(producer->waits, 10);
}

TEST(HttpStream, AReaderThatLeavesEndsTheProducer) {
  std::shared_ptr<Producer> producer;
  std::atomic<bool> there{false};
  std::atomic<int> told{0};
  const RunningServer running([&](std::shared_ptr<Exchange> exchange) {
    exchange->on_gone([&] { ++told; });
    producer = std::make_shared<Producer>(std::move(exchange), 100'000, 64 << 10);
    there = true;
  });
  RawClient client(running.port(), 64 << 10);
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return there.load(); }));
  client.receive_some(1000);
  client.close();
  EXPECT_TRUE(eventually([&] { return producer->ended.load(); }));
  EXPECT_TRUE(producer->was_cut_off);
  EXPECT_EQ(told, 1);
}

TEST(HttpStream, AReaderThatTakesNothingIsCutOff) {
  std::shared_ptr<Producer> producer;
  std::atomic<bool> there{false};
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        producer = std::make_shared<Producer>(std::move(exchange), 100'000, 64 << 10);
        there = true;
      },
      [](ServerOptions& options) {
        options.limits.write_timeout = std::chrono::milliseconds(100);
        options.limits.min_bytes_per_second = 64 << 20;
      });
  RawClient client(running.port(), 64 << 10);
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return there.load(); }));
  EXPECT_TRUE(eventually([&] { return producer->ended.load(); }));
  EXPECT_TRUE(producer->was_cut_off);
}

TEST(HttpStream, AProducerThatDoesNotWaitLosesTheClient) {
  std::atomic<bool> ended{false};
  const RunningServer running(
      [&](std::shared_ptr<Exchange> exchange) {
        std::thread([exchange, &ended] {
          exchange->start(event_stream());
          while (exchange->write(Piece::of(std::string(64 << 10, 'x'))) != Exchange::Flow::gone) {
          }
          ended = true;
        }).detach();
      },
      [](ServerOptions& options) { options.limits.stream_queue_bytes = 16 << 10; });
  RawClient client(running.port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_FALSE(client.receive().complete);
}

TEST(HttpStream, AnAbandonedStreamIsSeenToBeIncomplete) {
  const RunningServer running([](const std::shared_ptr<Exchange>& exchange) {
    exchange->start(event_stream());
    exchange->write(Piece::of("half"));
  });
  RawClient client(running.port());
  const Answered answer = client.ask(get("/"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.complete);
}

TEST(HttpStream, AClientThatLeavesASilentStreamIsNoticed) {
  std::shared_ptr<Exchange> exchange;
  std::atomic<bool> there{false};
  std::atomic<int> told{0};
  const RunningServer running([&](std::shared_ptr<Exchange> given) {
    exchange = std::move(given);
    exchange->on_gone([&] { ++told; });
    exchange->start(event_stream());
    there = true;
  });
  RawClient client(running.port());
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return there.load(); }));
  EXPECT_THAT(client.receive_some(1000), HasSubstr("200 OK"));
  client.reset();
  EXPECT_TRUE(eventually([&] { return told == 1; }));
  EXPECT_EQ(exchange->write(Piece::of("x")), Exchange::Flow::gone);
}

}  // namespace
}  // namespace gpux::http
