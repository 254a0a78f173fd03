// What a client of gRPC sees of a provider that fails: by plugins/example, at each step that a request can meet.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "cli/failing_provider.h"
#include "cli/serving.h"
#include "open_inference.grpc.pb.h"

namespace gpux::test {
namespace {

using ::grpc::Status;
using ::grpc::StatusCode;
using std::chrono::milliseconds;
using testing::HasSubstr;

struct Answer {
  Status status;
  std::vector<float> values;  // of the first output
};

class Client {
 public:
  explicit Client(const Serving& server)
      : stub_(inference::GRPCInferenceService::NewStub(
            ::grpc::CreateChannel("127.0.0.1:" + std::to_string(server.ready().at("grpc_port").get<int>()),
                                  ::grpc::InsecureChannelCredentials()))) {}

  /// `inputs`: float32, each of `shape`.
  [[nodiscard]] Answer infer(const std::string& model, const std::vector<std::int64_t>& shape,
                             const std::vector<std::pair<std::string, std::vector<float>>>& inputs) const {
    inference::ModelInferRequest request;
    request.set_model_name(model);
    for (const auto& [name, values] : inputs) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype("FP32");
      input.mutable_shape()->Add(shape.begin(), shape.end());
      request.add_raw_input_contents(
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    }
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    inference::ModelInferResponse response;
    Answer answer;
    answer.status = stub_->ModelInfer(&context, request, &response);
    if (response.raw_output_contents_size() > 0) {
      const std::string& bytes = response.raw_output_contents(0);
      answer.values.resize(bytes.size() / sizeof(float));
      bytes.copy(reinterpret_cast<char*>(answer.values.data()), answer.values.size() * sizeof(float));
    }
    return answer;
  }

  [[nodiscard]] Answer multiply() const { return infer("mul", {3}, {{"a", {1, 2, 3}}, {"b", {4, 5, 6}}}); }

  [[nodiscard]] Answer add() const { return infer("add", {1, 3}, {{"x", {1, 2, 3}}}); }

  [[nodiscard]] Status load(const std::string& model, milliseconds limit) const {
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(model);
    inference::RepositoryModelLoadResponse response;
    return stub_->RepositoryModelLoad(&context, request, &response);
  }

  [[nodiscard]] bool is_ready(const std::string& model) const {
    ::grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(model);
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    return response.ready();
  }

 private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

void expect_values(const Answer& answer, const std::vector<float>& values) {
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.values, values);
}

// Before there is a session the CPU takes its place.
TEST(FailingProviderOverGrpc, IsReplacedByTheCpu) {
  for (const char* command : {"load", "no-device", "create", "capability", "claim-nothing", "compile"}) {
    SCOPED_TRACE(command);
    const Program gpux;
    const Serving server(gpux, with_provider({"mul=" + model("multiply.onnx")}), {{"GPUX_EXAMPLE_FAIL", command}});
    const Client client(server);
    expect_values(client.multiply(), {4, 10, 18});
    EXPECT_TRUE(client.is_ready("mul"));
  }
}

TEST(FailingProviderOverGrpc, CostsTheRequestThatFails) {
  struct Case {
    const char* command;
    const char* says;
  };

  const std::vector<std::pair<std::string, std::vector<float>>> small{{"values", {1, 2}}, {"mask", {1, 1}}},
      large{{"values", {1, 2, 3, 4}}, {"mask", {1, 1, 1, 1}}};
  // The model computes two times in a run, the first of which is to warm up. Its constant takes 4 bytes.
  // Without a trial of whether requests can share runs, which would be counted, too.
  for (const Case& one : {Case{"run:5", "was set to fail at: run:5"},
                          Case{"out-of-memory:40", "out of memory: the device has no room for 16 bytes"}}) {
    SCOPED_TRACE(one.command);
    const Program gpux;
    Serving server(
        gpux, with_provider({"sum=" + model("masked_sum.onnx"), "add=" + model("add.onnx"), "--batch-axis", "none"}),
        {{"GPUX_EXAMPLE_FAIL", one.command}});
    const Client client(server);
    expect_values(client.infer("sum", {1, 2}, small), {3});
    const Answer failed = client.infer("sum", {1, 4}, large);
    EXPECT_EQ(failed.status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_THAT(failed.status.error_message(), HasSubstr(one.says));
    expect_values(client.infer("sum", {1, 2}, small), {3});
    expect_values(client.add(), {2, 4, 6});
    EXPECT_THAT(server.ask(http::get("/metrics")).body,
                HasSubstr("nv_inference_request_failure{model=\"sum\",version=\"1.0.0\",reason=\"BACKEND\"} 1\n"));
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
}

TEST(FailingProviderOverGrpc, HangsWithoutHoldingTheServer) {
  const Program gpux;
  const auto release = gpux.folder().write("release", "");
  Serving server(
      gpux, with_provider_in_thread({"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"), "--timeout", "1s"}),
      {{"GPUX_EXAMPLE_FAIL", "hang"}, {"GPUX_EXAMPLE_RELEASE", release.string()}, leaves_threads()});
  const Client client(server);
  expect_values(client.multiply(), {4, 10, 18});
  std::filesystem::remove(release);
  EXPECT_EQ(client.multiply().status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  expect_values(client.add(), {2, 4, 6});
  EXPECT_FALSE(client.is_ready("mul")) << "its device hangs";
  EXPECT_TRUE(client.is_ready("add"));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

TEST(FailingProviderOverGrpc, HangsInALoadWithoutHoldingTheServer) {
  const Program gpux;
  const auto release = gpux.folder().write("release", "");
  Serving server(gpux,
                 with_provider_in_thread({"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"), "--load-timeout",
                                          "1s", "--drain-timeout", "500ms"}),
                 {{"GPUX_EXAMPLE_FAIL", "hang-compile"}, {"GPUX_EXAMPLE_RELEASE", release.string()}, leaves_threads()});
  const Client client(server);
  EXPECT_TRUE(client.load("mul", std::chrono::seconds(60)).ok());
  std::filesystem::remove(release);
  const Status late = client.load("mul", std::chrono::seconds(60));
  EXPECT_EQ(late.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(late.error_message(), "model 'mul' is not loaded yet: its load continues");
  EXPECT_EQ(client.load("add", milliseconds(200)).error_code(), StatusCode::DEADLINE_EXCEEDED) << "behind it";
  expect_values(client.multiply(), {4, 10, 18});
  expect_values(client.add(), {2, 4, 6});
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << "the device still hangs";
}

}  // namespace
}  // namespace gpux::test
