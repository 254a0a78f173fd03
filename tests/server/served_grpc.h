#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "health.grpc.pb.h"
#include "open_inference.grpc.pb.h"
#include "runtime/cpu_runtime.h"
#include "runtime/scheduling/batch.h"
#include "server/grpc/server.h"
#include "server/models/served_model.h"

namespace gpux::server {

using ::grpc::ClientContext;
using ::grpc::Status;
using ::grpc::StatusCode;
using Clock = std::chrono::steady_clock;
using Health = ::grpc::health::v1::HealthCheckResponse;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

/// Of a server with these keys.
inline std::shared_ptr<Access> access_of(const std::vector<std::string>& secrets, LimitRules limits = {}) {
  std::vector<ApiKey> keys;
  for (const std::string& secret : secrets) keys.push_back({.name = {}, .secret = secret});
  return std::make_shared<Access>(AccessRules{.keys = ApiKeys(keys, {}), .limits = std::move(limits)});
}

inline constexpr auto patience = std::chrono::seconds(60);

inline ModelSource source(const std::string& name, const ServingOptions& options,
                          std::optional<ProjectFile> project = {}) {
  ModelSource made;
  made.name = name;
  made.version = "1";
  made.load = [name, options, project] {
    LoadOptions load;
    load.provider = "cpu";
    load.intra_threads = 1;
    Workers workers =
        load_workers({}, load, true, [&](const LoadOptions& with) { return Runtime(test_model(name), with); });
    ServingOptions serving = options;
    serving.sharing.shared = runtime::signature_permits_sharing(workers.sessions.front()->info().signature);
    return ModelParts{.name = name, .version = "1", .project = project, .session = {std::move(workers), serving}};
  };
  return made;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// An input without its contents.
inline ModelInferRequest::InferInputTensor& add_input(ModelInferRequest& request, const std::string& name,
                                                      const std::string& datatype,
                                                      const std::vector<std::int64_t>& shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}

inline ModelInferRequest request_for(const std::string& model) {
  ModelInferRequest request;
  request.set_model_name(model);
  return request;
}

inline ModelInferRequest add_request(const std::vector<float>& values) {
  ModelInferRequest request = request_for("add");
  add_input(request, "x", "FP32", {static_cast<std::int64_t>(values.size() / 3), 3});
  request.add_raw_input_contents(raw(values));
  return request;
}

inline ModelInferRequest slow_request(std::int64_t iterations) {
  ModelInferRequest request = request_for("slow");
  add_input(request, "x", "FP32", {16, 16});
  request.add_raw_input_contents(std::string(std::size_t{16} * 16 * sizeof(float), '\0'));
  add_input(request, "iterations", "INT64", {});
  request.add_raw_input_contents(raw<std::int64_t>({iterations}));
  return request;
}

inline constexpr std::int64_t for_ever = std::int64_t{1} << 40;

/// The Open Inference Protocol over loopback, and a client of gRPC's own.
class Grpc : public CpuRuntime {
 protected:
  /// Serves these models; each test once.
  void serve(const std::vector<std::string>& models, GrpcServerOptions options = {},
             const ServingOptions& serving = {}) {
    std::vector<ModelSource> sources;
    for (const std::string& model : models) sources.push_back(source(model, serving, project_));
    serve_sources(sources, std::move(options));
  }

  void serve_sources(const std::vector<ModelSource>& sources, GrpcServerOptions options = {}) {
    repository_ = std::make_unique<ModelRepository>([sources] { return sources; });
    repository_->load_all();
    options.port = 0;
    server_ = std::make_unique<GrpcServer>(*repository_, options);
    channel_ =
        ::grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), ::grpc::InsecureChannelCredentials());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
    health_ = ::grpc::health::v1::Health::NewStub(channel_);
  }

  [[nodiscard]] static std::unique_ptr<ClientContext> context() {
    auto made = std::make_unique<ClientContext>();
    made->set_deadline(std::chrono::system_clock::now() + patience);
    return made;
  }

  /// A connection of its own that takes next to nothing of an answer before it is read.
  [[nodiscard]] std::shared_ptr<::grpc::Channel> narrow_channel() const {
    ::grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return ::grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                       ::grpc::InsecureChannelCredentials(), arguments);
  }

  Status infer(const ModelInferRequest& request, ModelInferResponse& response) {
    return stub_->ModelInfer(context().get(), request, &response);
  }

  ModelInferResponse must_infer(const ModelInferRequest& request) {
    ModelInferResponse response;
    const Status status = infer(request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  void expect_alive() {
    const ModelInferResponse response = must_infer(add_request({1, 2, 3}));
    ASSERT_EQ(response.raw_output_contents_size(), 1);
    EXPECT_EQ(response.raw_output_contents(0), raw<float>({2, 4, 6}));
  }

  [[nodiscard]] runtime::SchedulerCounts counts(const std::string& model) {
    return repository_->find(model, "")->session().scheduler().counts();
  }

  template <typename Condition>
  [[nodiscard]] static bool wait_for(const Condition& condition) {
    for (const auto end = Clock::now() + patience; Clock::now() < end;) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  std::optional<ProjectFile> project_;
  std::unique_ptr<ModelRepository> repository_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<::grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::unique_ptr<::grpc::health::v1::Health::Stub> health_;
};

}  // namespace gpux::server
