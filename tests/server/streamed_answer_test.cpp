// Answers that are sent as they come, to a client that does not read as fast.
#include "server/generation/streamed_answer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/event_stream.h"
#include "server/protocols/ollama/answers.h"
#include "server/protocols/responses/answers.h"

namespace gpux::server {
namespace {

/// Has room for one piece at a time.
class NarrowExchange : public http::Exchange {
 public:
  void broken(int status, const Error& error) override {
    told.push_back(std::to_string(status) + " " + error.message());
  }

  std::vector<std::string> told;  // of streams that broke

  [[nodiscard]] const http::Request& request() const noexcept override { return request_; }

  void respond(http::Response response) override { sent_ += response.text; }

  void on_gone(std::function<void()> /*callback*/) override {}

  void start(http::Response /*head*/) override {}

  Flow write(http::Piece piece) override {
    sent_ += piece.text();
    longest_ = std::max(longest_, piece.bytes.size());
    return Flow::wait;
  }

  void on_room(std::function<void()> callback) override { on_room_ = std::move(callback); }

  void finish() override { is_finished_ = true; }

  void make_room() const { on_room_(); }

  [[nodiscard]] const std::string& sent() const noexcept { return sent_; }

  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }

  [[nodiscard]] bool is_finished() const noexcept { return is_finished_; }

 private:
  http::Request request_;
  std::string sent_;
  std::size_t longest_ = 0;
  std::function<void()> on_room_;
  bool is_finished_ = false;
};

// What the last event says depends on the parts before it.
TEST(StreamedAnswers, EndBehindWhatWaits) {
  const auto exchange = std::make_shared<NarrowExchange>();
  const auto answer = std::make_shared<StreamedAnswer>(exchange, ollama_answer_events({}),
                                                       [](const Error&) { return http::Response(); });
  answer->write({.is_first = true, .text = "a"});
  answer->write({.text = "b", .finish_reason = "length"});
  answer->finish({});
  EXPECT_EQ(exchange->sent().find("done_reason"), std::string::npos);
  EXPECT_FALSE(exchange->is_finished());
  exchange->make_room();
  EXPECT_NE(exchange->sent().find(R"("done_reason":"length")"), std::string::npos) << exchange->sent();
  EXPECT_TRUE(exchange->is_finished());
}

TEST(StreamedAnswers, TellOfErrorsAfterTheyHaveBegun) {
  for (const bool has_begun : {false, true}) {
    const auto exchange = std::make_shared<NarrowExchange>();
    const auto refuse = [](const Error&) { return http::Response::error(504, "late"); };
    const auto answer = std::make_shared<StreamedAnswer>(exchange, ollama_answer_events({}), refuse);
    if (has_begun) answer->write({.is_first = true, .text = "a"});
    answer->fail(Error(ErrorCode::deadline_exceeded, "late"));
    answer->fail(Error(ErrorCode::internal, "later"));
    EXPECT_EQ(exchange->told, has_begun ? std::vector<std::string>{"504 late"} : std::vector<std::string>{});
  }
}

// The end of a response repeats its text several times: the transport would give up a client that has so much to read.
TEST(StreamedAnswers, SendLongEventsInPieces) {
  const auto exchange = std::make_shared<NarrowExchange>();
  const responses::ResponseHead head{.id = "resp_1", .repeated = std::make_shared<const std::string>()};
  const auto answer = std::make_shared<StreamedAnswer>(exchange, responses::response_events(head, nullptr, nullptr),
                                                       [](const Error&) { return http::Response(); });
  answer->write({.is_first = true, .text = std::string(300'000, 'a')});
  answer->write({.finish_reason = "stop"});
  answer->finish({});
  for (int i = 0; i < 1000 && !exchange->is_finished(); ++i) exchange->make_room();
  EXPECT_TRUE(exchange->is_finished());
  EXPECT_LE(exchange->longest(), 64U << 10U);
  const auto events = test::named_events(exchange->sent());
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"].get<std::string>().size(), 300'000U);
}

}  // namespace
}  // namespace gpux::server
