// Deadlines and shutdown of gpux serve, whatever its clients and its own threads do.
#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/leaves_threads.h"
#include "cli/serving.h"
#include "embedding/encoder_folder.h"
#include "server/black_png.h"

namespace gpux::test {
namespace {

using http::eventually;
using http::get;
using http::post;

/// A request whose answer is as long as its tensor, and neither compressed nor text.
std::string infer_of(std::size_t bytes, const std::string& fields = "", const std::string& parameters = "{}") {
  const std::size_t rows = bytes / 12;
  const std::string head = fmt::format(
      R"({{"parameters": {}, "inputs": [{{"name": "x", "shape": [{}, 3], "datatype": "FP32",
          "parameters": {{"binary_data_size": {}}}}}],
          "outputs": [{{"name": "y", "parameters": {{"binary_data": true}}}}]}})",
      parameters, rows, rows * 12);
  return post("/v2/models/adder/infer", head + std::string(rows * 12, '\0'),
              fmt::format("Inference-Header-Content-Length: {}\r\n{}", head.size(), fields));
}

TEST(ServeLimits, AnAnswerThatIsNotReadEndsWithItsRequestsDeadline) {
  // More than the kernel takes on both sides.
  constexpr std::size_t bytes = 12 << 20;
  const Program gpux;

  struct Line {
    const char* source;
    std::vector<std::string> flags;
    std::string request;
  };

  for (const Line& line : std::vector<Line>{
           {"header", {}, infer_of(bytes, "X-Request-Timeout-Ms: 4000\r\n")},
           {"parameter", {}, infer_of(bytes, "", R"({"timeout": 4000000})")},
           {"flag", {"--timeout", "4s"}, infer_of(bytes)},
       }) {
    SCOPED_TRACE(line.source);
    std::vector<std::string> arguments{"adder=" + model("add.onnx"), "--no-grpc"};
    arguments.insert(arguments.end(), line.flags.begin(), line.flags.end());
    const Serving server(gpux, arguments);
    RawClient reading(server.port());
    const Answered whole = reading.ask(line.request);
    EXPECT_EQ(whole.status, 200) << whole.body.substr(0, 200);
    EXPECT_TRUE(whole.complete);

    RawClient stalled(server.port(), 4096);
    stalled.send(line.request);
    ASSERT_TRUE(stalled.readable(std::chrono::seconds(60)));
    const auto metrics = [&] { return server.ask(get("/metrics")).body; };
    // One that is slow is cut off after ten seconds: for another reason.
    const auto is_cut_off = [&] {
      return metrics().find("gpux_http_cut_off_total{reason=\"deadline\"} 1\n") != std::string::npos;
    };
    EXPECT_TRUE(eventually(is_cut_off) || eventually(is_cut_off) || eventually(is_cut_off)) << metrics();
    const Answered part = stalled.receive();
    EXPECT_EQ(part.status, 200);
    EXPECT_FALSE(part.complete);
  }
}

/// Keeps the threads that read requests busy, for much longer than a drain may take.
class ReadersLoad {
 public:
  explicit ReadersLoad(const Serving& server) : server_(server) {
    std::string words;
    while (words.size() < (256 << 10)) words += "the quick brown fox jumps over the lazy dog ";
    const std::string texts = post("/models/texts/tokenize", Json{{"inputs", std::vector(32, words)}}.dump());
    std::string longest = words;
    while (longest.size() < (700 << 10)) longest += words;
    const std::string one_text = post("/models/texts/tokenize", Json{{"inputs", longest}}.dump());
    const std::string png = black_png(4000);
    const std::string image = fmt::format(
                                  "POST /models/digits/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                  "image/png\r\nContent-Length: {}\r\n\r\n",
                                  png.size()) +
                              png;
    for (int i = 0; i < 6; ++i) {
      for (const std::string& request : {texts, one_text, image}) ask(request);
    }
    const auto are_sent = [&] { return sent_ == clients_.size(); };
    EXPECT_TRUE(eventually(are_sent) || eventually(are_sent) || eventually(are_sent)) << sent_;
  }

  ~ReadersLoad() { (void)statuses(); }

  ReadersLoad(const ReadersLoad&) = delete;
  ReadersLoad& operator=(const ReadersLoad&) = delete;

  /// Of whole answers, by how often they came; 0: an answer that is not whole, or none.
  std::map<int, int> statuses() {
    for (std::thread& client : clients_) client.join();
    clients_.clear();
    const std::lock_guard lock(mutex_);
    return statuses_;
  }

 private:
  void ask(const std::string& request) {
    clients_.emplace_back([this, request] {
      RawClient client(server_.port());
      client.send(request);
      ++sent_;
      const Answered answer = client.receive();
      const std::lock_guard lock(mutex_);
      ++statuses_[answer.complete ? answer.status : 0];
    });
  }

  const Serving& server_;
  std::vector<std::thread> clients_;
  std::atomic<std::size_t> sent_ = 0;
  std::mutex mutex_;
  std::map<int, int> statuses_;
};

class ServeShutdown : public testing::Test {
 protected:
  void SetUp() override {
    texts_ = write_encoder_folder(gpux_.folder(), R"({"pooling_mode_mean_tokens": true})", false).string();
  }

  [[nodiscard]] std::vector<std::string> flags(const std::string& drain_timeout) const {
    return {"texts=" + texts_, "digits=" GPUX_SOURCE_DIR "/examples/digits", "--drain-timeout", drain_timeout};
  }

  Program gpux_;
  std::string texts_;
};

TEST_F(ServeShutdown, BusyReadersDoNotHoldItUp) {
  Serving server(gpux_, flags("1s"), {leaves_threads()});
  ReadersLoad load(server);
  server.signal(SIGTERM);
  // Serving::wait() gives up after ten seconds; what the clients asked for would take longer.
  EXPECT_EQ(server.wait(), 0) << server.log();
  const std::map<int, int> statuses = load.statuses();
  EXPECT_THAT(statuses, testing::Contains(testing::Key(503))) << "the readers had nothing to do";
  for (const auto& [status, count] : statuses) {
    EXPECT_THAT(status, testing::AnyOf(200, 503)) << count << " times";
  }
}

TEST_F(ServeShutdown, ASecondSignalEndsItAtOnce) {
  Serving server(gpux_, flags("10m"));
  ReadersLoad load(server);
  server.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return server.log().find("shutting down") != std::string::npos; }));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 130) << server.log();
}

}  // namespace
}  // namespace gpux::test
