// What is counted of gRPC calls, against what a client did.
#include <algorithm>
#include <array>
#include <map>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <nlohmann/json.hpp>

#include "base/recent_log.h"
#include "server/metrics/metrics.h"
#include "server/served_grpc.h"

namespace gpux::server {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Calls by how they ended, as the client saw it.
using Ends = std::map<StatusCode, std::uint64_t>;

class CountedGrpc : public Grpc {
 protected:
  [[nodiscard]] const GrpcMethodCounts& counted(std::string_view method) const {
    const auto& all = server_->counts()->methods();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.method == method; });
    if (found == all.end()) throw std::runtime_error("no counts of " + std::string(method));
    return *found;
  }

  [[nodiscard]] std::uint64_t started() const {
    std::uint64_t sum = 0;
    for (const GrpcMethodCounts& method : server_->counts()->methods()) sum += method.started;
    return sum;
  }

  /// A call ends at the client a moment before it does here.
  [[nodiscard]] bool settled() const {
    const auto& all = server_->counts()->methods();
    return wait_for(
        [&] { return std::all_of(all.begin(), all.end(), [](const auto& m) { return m.in_flight() == 0; }); });
  }

  [[nodiscard]] static Ends ends_of(const GrpcMethodCounts& method) {
    Ends ends;
    for (std::size_t code = 0; code < method.ended.size(); ++code) {
      if (method.ended.at(code) != 0) ends[static_cast<StatusCode>(code)] = method.ended.at(code);
    }
    return ends;
  }

  [[nodiscard]] std::string page() const {
    const auto models = repository_->models();
    return prometheus_text(models, {{}, server_->counts()});
  }
};

TEST_F(CountedGrpc, EachCallOnceByItsEnd) {
  serve({"add", "slow"});
  Ends infers;
  std::uint64_t sent = 0, sent_bytes = 0, received_bytes = 0;
  const auto ask = [&](const ModelInferRequest& request) {
    ModelInferResponse response;
    const Status status = infer(request, response);
    ++infers[status.error_code()];
    received_bytes += request.ByteSizeLong();
    if (!status.ok()) return;
    ++sent;
    sent_bytes += response.ByteSizeLong();
  };
  for (const std::size_t count : {3, 6, 300'000}) ask(add_request(std::vector<float>(count)));
  ModelInferRequest bad = add_request({1, 2, 3});
  bad.set_raw_input_contents(0, "abc");
  ask(bad);
  ask(bad);
  ask(request_for("none"));
  ModelInferRequest late = slow_request(for_ever);
  (*late.mutable_parameters())["timeout"].set_int64_param(20'000);
  ask(late);
  // Cancelled while it runs.
  {
    const auto given = context();
    std::thread client([&] {
      ModelInferResponse response;
      ++infers[stub_->ModelInfer(given.get(), slow_request(for_ever), &response).error_code()];
    });
    received_bytes += slow_request(for_ever).ByteSizeLong();
    EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
    EXPECT_EQ(counted("ModelInfer").in_flight(), 1U);
    EXPECT_THAT(page(), HasSubstr("gpux_grpc_calls{grpc_type=\"unary\","
                                  "grpc_service=\"inference.GRPCInferenceService\",grpc_method=\"ModelInfer\"} 1\n"));
    given->TryCancel();
    client.join();
  }
  EXPECT_EQ(infers, (Ends{{StatusCode::OK, 3},
                          {StatusCode::INVALID_ARGUMENT, 2},
                          {StatusCode::NOT_FOUND, 1},
                          {StatusCode::DEADLINE_EXCEEDED, 1},
                          {StatusCode::CANCELLED, 1}}));
  ASSERT_TRUE(settled());
  const GrpcMethodCounts& method = counted("ModelInfer");
  EXPECT_EQ(ends_of(method), infers);
  EXPECT_EQ(method.started, 8U);
  EXPECT_EQ(method.received, 8U);
  EXPECT_EQ(method.received_bytes, received_bytes);
  EXPECT_EQ(method.sent, sent);
  EXPECT_EQ(method.sent_bytes, sent_bytes);

  // Streams: one to its end, with two failures that are answers, and one that is left.
  {
    const auto given = context();
    const auto stream = stub_->ModelStreamInfer(given.get());
    for (const ModelInferRequest& request : {add_request({1, 2, 3}), bad, request_for("none"), add_request({})}) {
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
    inference::ModelStreamInferResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_TRUE(stream->Finish().ok());
  }
  {
    const auto given = context();
    const auto stream = stub_->ModelStreamInfer(given.get());
    EXPECT_TRUE(stream->Write(slow_request(for_ever)));
    EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
    given->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  }
  ASSERT_TRUE(settled());
  const GrpcMethodCounts& streams = counted("ModelStreamInfer");
  EXPECT_EQ(ends_of(streams), (Ends{{StatusCode::OK, 1}, {StatusCode::CANCELLED, 1}}));
  EXPECT_EQ(streams.received, 5U);
  EXPECT_EQ(streams.sent, 4U);

  // The service of health, and what there is no method for.
  Health health;
  EXPECT_TRUE(health_->Check(context().get(), {}, &health).ok());
  ::grpc::GenericStub generic(channel_);
  std::atomic<int> ended = 0;
  std::vector<std::unique_ptr<ClientContext>> contexts;
  std::array<::grpc::ByteBuffer, 2> requests, responses;
  for (std::size_t i = 0; i < 2; ++i) {
    contexts.push_back(context());
    const ::grpc::Slice nothing;
    requests.at(i) = ::grpc::ByteBuffer(&nothing, 1);
    generic.UnaryCall(contexts.back().get(), "/made.up/ByAClient" + std::to_string(i), {}, &requests.at(i),
                      &responses.at(i), [&](const Status& status) {
                        EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
                        ++ended;
                      });
  }
  EXPECT_TRUE(wait_for([&] { return ended == 2; }));
  ASSERT_TRUE(settled());
  EXPECT_EQ(ends_of(counted("Check")), (Ends{{StatusCode::OK, 1}}));
  EXPECT_EQ(ends_of(counted("unknown")), (Ends{{StatusCode::UNIMPLEMENTED, 2}}));
  EXPECT_EQ(started(), 8U + 2 + 1 + 2);

  const std::string text = page();
  for (const char* line :
       {"# TYPE grpc_server_handled_total counter\n",
        "grpc_server_handled_total{grpc_type=\"unary\",grpc_service=\"inference.GRPCInferenceService\","
        "grpc_method=\"ModelInfer\",grpc_code=\"OK\"} 3\n",
        "grpc_method=\"ModelInfer\",grpc_code=\"InvalidArgument\"} 2\n",
        "grpc_method=\"ModelInfer\",grpc_code=\"Canceled\"} 1\n",
        "grpc_server_handled_total{grpc_type=\"bidi_stream\",grpc_service=\"inference.GRPCInferenceService\","
        "grpc_method=\"ModelStreamInfer\",grpc_code=\"OK\"} 1\n",
        "grpc_server_handled_total{grpc_type=\"unary\",grpc_service=\"inference.GRPCInferenceService\","
        "grpc_method=\"ModelConfig\",grpc_code=\"OK\"} 0\n",
        "grpc_server_started_total{grpc_type=\"server_stream\",grpc_service=\"grpc.health.v1.Health\","
        "grpc_method=\"Watch\"} 0\n",
        "grpc_server_started_total{grpc_type=\"unary\",grpc_service=\"inference.GRPCInferenceService\","
        "grpc_method=\"ModelInfer\"} 8\n",
        "grpc_method=\"unknown\",grpc_code=\"Unimplemented\"} 2\n",
        "grpc_server_msg_received_total{grpc_type=\"bidi_stream\",grpc_service=\"inference.GRPCInferenceService\","
        "grpc_method=\"ModelStreamInfer\"} 5\n",
        "grpc_server_msg_sent_total{grpc_type=\"bidi_stream\",grpc_service=\"inference.GRPCInferenceService\","
        "grpc_method=\"ModelStreamInfer\"} 4\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("gpux_grpc_sent_bytes_total{grpc_type=\"unary\",grpc_service=\"inference."
                              "GRPCInferenceService\",grpc_method=\"ModelInfer\"} " +
                              std::to_string(sent_bytes) + "\n"));
  // A client must not be able to make up labels.
  EXPECT_THAT(text, Not(HasSubstr("ByAClient")));
  const auto json = nlohmann::json::parse(json_metrics(repository_->models(), {{}, server_->counts()}));
  EXPECT_EQ(json.at("grpc").at("started"), 13);
  EXPECT_EQ(json.at("grpc").at("calls"), 0);
  EXPECT_EQ(json.at("grpc").at("ended").at("OK"), 5);
  EXPECT_THAT(prometheus_text(repository_->models(), {}), Not(HasSubstr("grpc")));
}

TEST_F(CountedGrpc, CountsRefusedCalls) {
  GrpcServerOptions options;
  options.access = access_of({"first-key-123"});
  options.max_message_bytes = 1 << 20;
  serve({"add"}, options);
  ModelInferResponse response;
  EXPECT_EQ(infer(add_request({1, 2, 3}), response).error_code(), StatusCode::UNAUTHENTICATED);
  const auto given = context();
  given->AddMetadata("x-api-key", "first-key-123");
  EXPECT_EQ(stub_->ModelInfer(given.get(), add_request(std::vector<float>(600'000)), &response).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(settled());
  EXPECT_EQ(ends_of(counted("ModelInfer")),
            (Ends{{StatusCode::UNAUTHENTICATED, 1}, {StatusCode::RESOURCE_EXHAUSTED, 1}}));
  EXPECT_EQ(counted("ModelInfer").received, 0U);
  EXPECT_EQ(counted("ModelInfer").sent, 0U);
}

// A path is a field of its own: the console's log cuts those in messages, which are of files.
TEST_F(CountedGrpc, LogsTheMethodOfACall) {
  GrpcServerOptions options;
  options.log_requests = true;
  serve({"add"}, options);
  log::start(log::Level::info, log::Format::text);
  log::keep_recent(10);
  ModelInferResponse response;
  EXPECT_TRUE(infer(add_request({1, 2, 3}), response).ok());
  const std::pair<std::string, std::string> path("path", "/inference.GRPCInferenceService/ModelInfer");
  EXPECT_TRUE(wait_for([&] {
    const std::vector<log::RecentLine> lines = log::recent();
    return std::ranges::any_of(lines, [&](const log::RecentLine& line) {
      return line.message == "answered" && std::ranges::find(line.fields, path) != line.fields.end();
    });
  }));
  log::keep_recent(0);
  log::start(log::Level::off, log::Format::text);
}

TEST_F(CountedGrpc, KeepsCallsThatFail) {
  GrpcServerOptions options;
  options.access = access_of({"first-key-123"});
  options.failures = std::make_shared<FailedRequests>();
  serve({"add"}, options);
  ModelInferResponse response;
  EXPECT_EQ(infer(add_request({1, 2, 3}), response).error_code(), StatusCode::UNAUTHENTICATED);
  for (const char* model : {"add", "none", "none"}) {
    const auto given = context();
    given->AddMetadata("x-api-key", "first-key-123");
    given->AddMetadata("x-request-id", "id-of-it");
    ModelInferRequest request = add_request({1, 2, 3});
    request.set_model_name(model);
    (void)stub_->ModelInfer(given.get(), request, &response);
  }
  // Calls that need no key: anybody could push the others out.
  for (const char* service : {"a", "b"}) {
    ::grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    Health health;
    EXPECT_EQ(health_->Check(context().get(), request, &health).error_code(), StatusCode::NOT_FOUND);
  }
  ASSERT_TRUE(settled());
  const std::vector<FailedRequest> failed = options.failures->all();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].method, "gRPC");
  EXPECT_EQ(failed[0].path, "/inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(failed[0].status, "NotFound");
  EXPECT_THAT(failed[0].reason, HasSubstr("none"));
  EXPECT_EQ(failed[0].id, "id-of-it");
  EXPECT_EQ(failed[0].count, 2U);
}

}  // namespace
}  // namespace gpux::server
