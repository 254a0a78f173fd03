// What messages and answers of gRPC may take, who may send how much, and how calls end with the server.
#include <atomic>
#include <functional>
#include <future>
#include <set>

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/generic/generic_stub.h>

#include "gpux/error.h"
#include "server/grpc/message_scan.h"
#include "server/raw_client.h"
#include "server/served_grpc.h"

namespace gpux::server {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20;

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Field 5, empty: one of `inputs` of ModelInferRequest, unknown to the small requests.
const std::string empty_submessage("\x2a\0", 2);

MessageScan scan(const std::string& message, std::uint64_t limit = UINT64_MAX) {
  static const MessageScanner scanner(*ModelInferRequest::descriptor());
  google::protobuf::io::ArrayInputStream stream(message.data(), static_cast<int>(message.size()), 7);
  return scanner.scan(stream, limit);
}

ModelInferRequest typed_request(const std::function<void(inference::InferTensorContents&)>& fill) {
  ModelInferRequest request = request_for("any");
  fill(*add_input(request, "x", "FP32", {1}).mutable_contents());
  return request;
}

TEST(MessageScan, CountsNoLessThanTheMessageTakes) {
  std::vector<ModelInferRequest> requests{request_for("add"), add_request({1, 2, 3}), slow_request(3)};
  requests.push_back(typed_request([](auto& contents) {
    for (int i = 0; i < 1000; ++i) contents.add_int64_contents(i % 2);
  }));
  requests.push_back(typed_request([](auto& contents) {
    for (int i = 0; i < 1000; ++i) contents.add_fp32_contents(1);
  }));
  requests.push_back(typed_request([](auto& contents) {
    for (int i = 0; i < 1000; ++i) contents.add_bool_contents(true);
  }));
  requests.push_back(typed_request([](auto& contents) {
    for (int i = 0; i < 1000; ++i) contents.add_bytes_contents(std::string(static_cast<std::size_t>(i % 40), 'x'));
  }));
  ModelInferRequest parts;
  for (int i = 0; i < 1000; ++i) {
    parts.add_inputs();
    (*parts.mutable_parameters())["parameter " + std::to_string(i)].set_string_param("value");
  }
  requests.push_back(parts);
  for (const ModelInferRequest& request : requests) {
    ModelInferRequest built;
    ASSERT_TRUE(built.ParseFromString(request.SerializeAsString()));
    const MessageScan found = scan(request.SerializeAsString());
    EXPECT_GE(found.memory_bytes, built.SpaceUsedLong()) << request.ShortDebugString().substr(0, 80);
    EXPECT_LE(found.memory_bytes, 3 * built.SpaceUsedLong() + 100) << request.ShortDebugString().substr(0, 80);
    EXPECT_FALSE(found.has_unknown_fields);
  }
}

TEST(MessageScan, StopsBeyondItsLimit) {
  const std::string message = repeated(empty_submessage, 1'000'000);
  EXPECT_GT(scan(message).memory_bytes, 100 * mib);
  const std::uint64_t stopped = scan(message, 10'000).memory_bytes;
  EXPECT_GT(stopped, 10'000U);
  EXPECT_LT(stopped, 11'000U);
}

TEST(MessageScan, RefusesWhatIsNoMessage) {
  for (const std::string& text : std::vector<std::string>{
           "\xff\xff\xff", "\x0a\x02\xff", std::string("\x2a\x05\x0a\x01", 4), std::string("\0", 1), "\x2a\x01\x0a",
           "\x0a\xff\xff\xff\xff\x0f", "\x7c", repeated("\x7b", 200)}) {
    EXPECT_THROW((void)scan(text), Error) << testing::PrintToString(text);
  }
}

// Protocol Buffers would keep them, at many times their length.
TEST(MessageScan, TakesUnknownFieldsOutAtAnyDepth) {
  const ModelInferRequest plain = typed_request([](auto& contents) { contents.add_fp32_contents(1); });
  ModelInferRequest full = plain;
  const auto add_unknown = [](google::protobuf::Message& message) {
    auto& fields = *message.GetReflection()->MutableUnknownFields(&message);
    fields.AddVarint(100, 7);
    fields.AddLengthDelimited(101, "text");
    fields.AddFixed32(102, 1);
    fields.AddFixed64(103, 1);
    fields.AddGroup(104)->AddVarint(1, 1);
    fields.AddVarint(6, 1);  // of another type, or of none
  };
  add_unknown(full);
  add_unknown(*full.mutable_inputs(0));
  add_unknown(*full.mutable_inputs(0)->mutable_contents());
  const std::string text = full.SerializeAsString();
  EXPECT_TRUE(scan(text).has_unknown_fields);
  EXPECT_EQ(scan(text).memory_bytes, scan(plain.SerializeAsString()).memory_bytes);
  const MessageScanner scanner(*ModelInferRequest::descriptor());
  EXPECT_EQ(scanner.known_fields(text), plain.SerializeAsString());
}

class GrpcLimits : public Grpc {
 protected:
  Status call(const std::string& path, const std::string& message, bool is_compressed = false,
              const char* key = nullptr) {
    auto given = context();
    if (is_compressed) given->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    if (key != nullptr) given->AddMetadata("x-api-key", key);
    ::grpc::GenericStub generic(channel_);
    const ::grpc::Slice slice(message);
    ::grpc::ByteBuffer request(&slice, 1), response;
    std::promise<Status> status;
    generic.UnaryCall(given.get(), path, {}, &request, &response,
                      [&](const Status& ended) { status.set_value(ended); });
    return status.get_future().get();
  }

  /// Calls of that method that the server has ended with that code.
  std::uint64_t ended(std::string_view name, StatusCode code) {
    for (const GrpcMethodCounts& method : server_->counts()->methods()) {
      if (method.method == name) return method.ended.at(code).load();
    }
    return 0;
  }
};

TEST_F(GrpcLimits, MethodsWithoutAKeyAcceptAFewKilobytes) {
  GrpcServerOptions options;
  options.access = access_of({"first-key-123"});
  options.memory = std::make_shared<MemoryBudget>(mib);
  serve({"add"}, options);

  struct Line {
    const char* message;
    std::string bytes;
    bool is_compressed;
    StatusCode code;
  };

  const std::vector<Line> lines{
      {"some unknown fields", repeated(empty_submessage, 2000), false, StatusCode::OK},
      {"4 KiB and a bit", repeated(empty_submessage, 2049), false, StatusCode::RESOURCE_EXHAUSTED},
      {"64 KiB", repeated(empty_submessage, 32768), false, StatusCode::RESOURCE_EXHAUSTED},
      {"4 KiB and a bit, compressed", repeated(empty_submessage, 2049), true, StatusCode::INVALID_ARGUMENT},
      {"62 MiB, compressed", repeated(empty_submessage, 31 * mib), true, StatusCode::RESOURCE_EXHAUSTED},
  };
  for (const char* path : {"/inference.GRPCInferenceService/ServerLive", "/inference.GRPCInferenceService/ServerReady",
                           "/inference.GRPCInferenceService/ModelReady", "/grpc.health.v1.Health/Check"}) {
    for (const Line& line : lines) {
      EXPECT_EQ(call(path, line.bytes, line.is_compressed).error_code(), line.code) << path << " " << line.message;
    }
  }
  EXPECT_EQ(options.memory->held_bytes(), 0U);
}

TEST_F(GrpcLimits, MessagesAreCountedBeforeTheyAreBuilt) {
  GrpcServerOptions options;
  options.max_message_bytes = mib;
  options.memory = std::make_shared<MemoryBudget>(4 * mib);
  serve({"add"}, options);
  const char* infer = "/inference.GRPCInferenceService/ModelInfer";
  for (const bool is_compressed : {false, true}) {
    const Status many = call(infer, repeated(empty_submessage, 400'000), is_compressed);
    EXPECT_EQ(many.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(many.error_message(), HasSubstr("too many parts"));
    // Within what one may become, and beyond what all may hold.
    const Status some = call(infer, repeated(empty_submessage, 35'000), is_compressed);
    EXPECT_EQ(some.error_code(), StatusCode::UNAVAILABLE) << some.error_message();
  }
  expect_alive();
  EXPECT_TRUE(wait_for([&] { return options.memory->held_bytes() == 0; }));
}

TEST_F(GrpcLimits, UnknownFieldsChangeNothing) {
  serve({"add"});
  std::string message = add_request({1, 2, 3}).SerializeAsString();
  // Field 100, a text.
  message += std::string("\xa2\x06\x03", 3) + "new";
  EXPECT_TRUE(call("/inference.GRPCInferenceService/ModelInfer", message).ok());
}

TEST_F(GrpcLimits, AnswersThatWaitTakeOfTheBudget) {
  GrpcServerOptions options;
  options.memory = std::make_shared<MemoryBudget>(4'000'000);
  serve({"add"}, options);
  const std::vector<float> values(300'000);
  const auto stub = inference::GRPCInferenceService::NewStub(narrow_channel());
  const auto given = context();
  const auto stream = stub->ModelStreamInfer(given.get());
  // Each answer has 1.2 MB, and nobody reads.
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t before = options.memory->held_bytes();
    if (!stream->Write(add_request(values))) break;
    (void)wait_for([&] { return options.memory->held_bytes() != before || i > 1; });
  }
  EXPECT_TRUE(wait_for([&] { return options.memory->held_bytes() >= 1'200'000; }));
  EXPECT_LE(options.memory->held_bytes(), options.memory->limit_bytes());
  // The slow reader loses its call, before message_timeout, which is 10 seconds, and is told why.
  ModelInferResponse response;
  const std::vector<float> too_many_beside_it(800'000);
  EXPECT_TRUE(wait_for([&] {
    (void)infer(add_request(too_many_beside_it), response);
    return ended("ModelStreamInfer", StatusCode::RESOURCE_EXHAUSTED) == 1;
  }));
  EXPECT_EQ(ended("ModelStreamInfer", StatusCode::DEADLINE_EXCEEDED), 0U);
  EXPECT_TRUE(wait_for([&] { return infer(add_request(values), response).ok(); }));
  given->TryCancel();
  (void)stream->Finish();
  EXPECT_TRUE(wait_for([&] { return options.memory->held_bytes() == 0; }));
}

TEST_F(GrpcLimits, AnAnswerThatIsNotReadEndsWithItsRequestsDeadline) {
  GrpcServerOptions options;
  options.message_timeout = std::chrono::minutes(10);
  serve({"add"}, options);
  ModelInferRequest request = add_request(std::vector<float>(300'000));
  (*request.mutable_parameters())["timeout"].set_int64_param(2'000'000);
  // Sends without asking for the answer: no more of it comes than the window of the channel.
  ::grpc::GenericStub generic(narrow_channel());
  ::grpc::CompletionQueue queue;
  const auto given = context();
  const auto call = generic.PrepareCall(given.get(), "/inference.GRPCInferenceService/ModelInfer", &queue);
  const auto done = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(done());
  const ::grpc::Slice slice(request.SerializeAsString());
  call->WriteLast(::grpc::ByteBuffer(&slice, 1), {}, nullptr);
  ASSERT_TRUE(done());
  EXPECT_TRUE(wait_for([&] { return ended("ModelInfer", StatusCode::DEADLINE_EXCEEDED) == 1; }));
  EXPECT_TRUE(wait_for([&] { return repository_->find("add", "")->statistics().succeeded == 1; }));
  given->TryCancel();
  Status status;
  call->Finish(&status, nullptr);
  (void)done();
  queue.Shutdown();
}

// Its clients have gone before their requests are read: nobody reads more of them than what is being read.
TEST_F(GrpcLimits, RequestsOfDepartedClientsAreNotRead) {
  GrpcServerOptions options;
  options.reading_threads = 1;
  serve({"add"}, options);
  // Takes long to read, and is counted by the model when it is read: its numbers are no floats.
  ModelInferRequest request = request_for("add");
  constexpr std::int64_t numbers = 12'000'000;
  add_input(request, "x", "INT64", {numbers / 3, 3}).mutable_contents()->mutable_int64_contents()->Resize(numbers, 1);
  const ::grpc::Slice slice(request.SerializeAsString());
  const std::string path = "/inference.GRPCInferenceService/ModelInfer";
  const auto received = [&] {
    for (const GrpcMethodCounts& method : server_->counts()->methods()) {
      if (method.method == "ModelInfer") return method.received.load();
    }
    return std::uint64_t{0};
  };
  const auto& read = repository_->find("add", "")->statistics().invalid;

  struct Departing {
    std::unique_ptr<ClientContext> context;
    ::grpc::ByteBuffer request, response;
    std::promise<void> ended;
  };

  constexpr int count = 8;
  std::uint64_t left_unread = 0;
  for (int round = 0; round < 10 && left_unread < 3; ++round) {
    ::grpc::GenericStub generic(channel_);
    const std::uint64_t received_before = received(), read_before = read;
    std::vector<Departing> clients(count);
    for (Departing& client : clients) {
      client.context = context();
      client.request = ::grpc::ByteBuffer(&slice, 1);
      generic.UnaryCall(client.context.get(), path, {}, &client.request, &client.response,
                        [&client](const Status& /*status*/) { client.ended.set_value(); });
    }
    ASSERT_TRUE(wait_for([&] { return received() == received_before + count; }));
    for (Departing& client : clients) client.context->TryCancel();
    for (Departing& client : clients) client.ended.get_future().wait();
    const std::uint64_t read_when_gone = read;
    left_unread = count - (read_when_gone - read_before);
    // It waits for its turn behind them.
    EXPECT_EQ(call(path, request.SerializeAsString()).error_code(), StatusCode::INVALID_ARGUMENT);
    const std::uint64_t read_later = read - read_when_gone - 1;
    // Of those that were there one was being read, and the client knew before the server that it had gone.
    EXPECT_LE(read_later, 2U);
  }
  EXPECT_GE(left_unread, 3U);
}

// To load balancers CANCELLED says that the client did not want its answer, and nothing is tried again.
TEST_F(GrpcLimits, CallsThatComeAtTheEndAreUnavailable) {
  serve({"add", "slow"});
  ModelInferResponse response;
  Status status;
  auto given = context();
  std::thread client([&] { status = stub_->ModelInfer(given.get(), slow_request(300'000), &response); });
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
  std::atomic<bool> ended = false;
  std::atomic<int> refused = 0, answered = 0;
  std::vector<std::thread> hammers;
  for (int i = 0; i < 4; ++i) {
    hammers.emplace_back([&] {
      while (!ended) {
        ModelInferResponse ignored;
        const StatusCode code = infer(add_request({1, 2, 3}), ignored).error_code();
        EXPECT_THAT(code, AnyOf(StatusCode::OK, StatusCode::UNAVAILABLE));
        if (code == StatusCode::OK) ++answered;
        if (code == StatusCode::UNAVAILABLE) ++refused;
      }
    });
  }
  EXPECT_TRUE(wait_for([&] { return answered > 0; }));
  EXPECT_TRUE(server_->drain(Clock::now() + patience));
  client.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(wait_for([&] { return refused > 0; }));
  ended = true;
  for (std::thread& hammer : hammers) hammer.join();
}

struct KeyLine {
  const char* path;
  StatusCode without_key;
};

// Written by hand: a method whose flag changes, or that is new, is to be noticed here.
constexpr KeyLine key_table[] = {
    {"/grpc.health.v1.Health/Check", StatusCode::OK},
    {"/grpc.health.v1.Health/Watch", StatusCode::OK},
    {"/inference.GRPCInferenceService/ModelConfig", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/ModelInfer", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/ModelMetadata", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/ModelReady", StatusCode::OK},
    {"/inference.GRPCInferenceService/ModelStatistics", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/ModelStreamInfer", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/RepositoryIndex", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/ServerLive", StatusCode::OK},
    {"/inference.GRPCInferenceService/ServerMetadata", StatusCode::UNAUTHENTICATED},
    {"/inference.GRPCInferenceService/ServerReady", StatusCode::OK},
    {"/unknown/unknown", StatusCode::UNAUTHENTICATED},
};

TEST_F(GrpcLimits, EachMethodAsksForAKeyOrDoesNot) {
  GrpcServerOptions options;
  options.access = access_of({"first-key-123"});
  serve({"add"}, options);
  std::set<std::string> listed, served;
  for (const GrpcMethodCounts& method : server_->counts()->methods()) {
    served.insert("/" + std::string(method.service) + "/" + std::string(method.method));
  }
  for (const KeyLine& line : key_table) {
    SCOPED_TRACE(line.path);
    listed.insert(line.path);
    const bool is_watch = std::string(line.path).ends_with("/Watch");
    if (is_watch) {
      const auto given = context();
      const auto watch = health_->Watch(given.get(), {});
      Health health;
      EXPECT_TRUE(watch->Read(&health));
      given->TryCancel();
      (void)watch->Finish();
      continue;
    }
    EXPECT_EQ(call(line.path, "").error_code(), line.without_key);
    EXPECT_EQ(call(line.path, "", false, "first-key-124").error_code(), line.without_key);
    // A stream waits for more.
    if (std::string(line.path).ends_with("/ModelStreamInfer")) continue;
    EXPECT_NE(call(line.path, "", false, "first-key-123").error_code(), StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(listed, served);
}

}  // namespace
}  // namespace gpux::server
