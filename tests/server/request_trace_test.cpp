#include "server/requests/request_trace.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "server/telemetry/tracer.h"

namespace gpux::server {
namespace {

/// Takes whatever is given.
class TakingExchange : public http::Exchange {
 public:
  explicit TakingExchange(http::Request request) : request_(std::move(request)) {}

  [[nodiscard]] const http::Request& request() const noexcept override { return request_; }

  void respond(http::Response) override {}

  void on_gone(std::function<void()>) override {}

  void start(http::Response) override {}

  Flow write(http::Piece) override { return Flow::go; }

  void on_room(std::function<void()>) override {}

  void finish() override {}

 private:
  http::Request request_;
};

TEST(TracedExchange, KeepsTheFailureThatItsClientGot) {
  FailedRequests failures;
  http::Request request;
  request.method = "POST";
  request.path = "/predict";
  request.headers.add("X-Request-Id", "id-of-it");
  const auto ask = [&] { return trace(std::make_shared<TakingExchange>(request), {.failures = &failures}); };
  const http::Response late = http::Response::error(504, "late"), wrong = http::Response::error(400, "wrong");

  // As where a deadline passes after the answer, or in the middle of it.
  const auto answered = ask();
  answered->respond(http::Response::json(200, "{}"));
  answered->respond(late);
  const auto streamed = ask();
  streamed->start(http::Response::streamed("text/event-stream"));
  streamed->respond(late);
  EXPECT_TRUE(failures.all().empty());

  const auto failed = ask();
  failed->respond(wrong);
  failed->respond(late);
  const std::vector<FailedRequest> all = failures.all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].method, "POST");
  EXPECT_EQ(all[0].path, "/predict");
  EXPECT_EQ(all[0].status, "400");
  EXPECT_EQ(all[0].reason, "wrong");
  EXPECT_EQ(all[0].id, "id-of-it");
  trace(std::make_shared<TakingExchange>(request), {})->respond(wrong);
  EXPECT_EQ(failures.all().size(), 1U);
}

// An answer that has begun as a success, and ends by an error.
TEST(TracedExchange, CountsAStreamThatBreaks) {
  FailedRequests failures;
  RouteFigures figures;
  std::vector<Span> spans;
  const Tracer tracer({}, true, [&](std::vector<Span>&& given) { spans = std::move(given); });
  http::Request request;
  request.method = "POST";
  request.path = "/api/chat";
  request.arrived = std::chrono::steady_clock::now();
  const auto streamed =
      trace(std::make_shared<TakingExchange>(request), {.failures = &failures,
                                                        .spans = tracer.begin("POST /api/chat", {}, request.arrived),
                                                        .figures = &figures,
                                                        .method = "POST",
                                                        .route = "/api/chat"});
  streamed->start(http::Response::streamed("text/event-stream"));
  streamed->broken(504, Error(ErrorCode::deadline_exceeded, "late"));
  streamed->finish();
  ASSERT_EQ(failures.all().size(), 1U);
  EXPECT_EQ(failures.all()[0].status, "504 in a stream");
  EXPECT_EQ(failures.all()[0].reason, "late");
  EXPECT_FALSE(failures.all()[0].id.empty());
  std::vector<int> statuses;
  figures.for_each(
      [&](std::string_view, std::string_view, int status, const Histogram&) { statuses.push_back(status); });
  EXPECT_EQ(statuses, std::vector<int>{504});
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_TRUE(spans[0].is_error);
  EXPECT_EQ(spans[0].error, "late");
  // A client that leaves is no failure.
  const auto left = trace(std::make_shared<TakingExchange>(request), {.failures = &failures});
  left->start(http::Response::streamed("text/event-stream"));
  left->broken(503, Error(ErrorCode::interrupted, "the request was cancelled"));
  left->finish();
  EXPECT_EQ(failures.all().size(), 1U);
}

}  // namespace
}  // namespace gpux::server
