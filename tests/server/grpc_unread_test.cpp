// Clients that do not take what they asked for, or do not ask to the end: their calls end, and nobody else minds.
#include <algorithm>
#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include "server/raw_client.h"
#include "server/served_grpc.h"

namespace gpux::server {
namespace {

using http::RawClient;
using std::chrono::milliseconds;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// A call of one message in the hands of a test, which says how much of its answer it takes. HTTP/2 as in RFC 9113.
class RawCall {
 public:
  /// The message goes compressed. `window`: bytes of the answer that may come before more is granted. `kept_back`: so
  /// many bytes of the message never go.
  RawCall(std::uint16_t port, const std::string& path, const std::string& message, std::uint32_t window,
          int receive_buffer_bytes = 0, std::size_t kept_back = 0)
      : client_(port, receive_buffer_bytes) {
    const std::string packed = http::compressed(message, 31);
    std::string fields;
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {":method", "POST"},
             {":scheme", "http"},
             {":path", path},
             {":authority", "localhost"},
             {"content-type", "application/grpc"},
             {"grpc-encoding", "gzip"},
             {"te", "trailers"},
         }) {
      // A literal without indexing, RFC 7541, 6.2.2.
      fields += '\0' + big_endian(static_cast<std::uint32_t>(name.size()), 1) + name +
                big_endian(static_cast<std::uint32_t>(value.size()), 1) + value;
    }
    client_.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    send(settings, 0, 0, big_endian(initial_window_size, 2) + big_endian(window, 4));
    send(settings, acknowledges, 0, "");
    // The connection's own window is to be no bound.
    send(window_update, 0, 0, big_endian(std::numeric_limits<std::int32_t>::max() - 65535, 4));
    send(headers, end_headers, stream, fields);
    std::string rest = '\1' + big_endian(static_cast<std::uint32_t>(packed.size()), 4) + packed;
    EXPECT_LT(rest.size(), 65535U) << "more than the server takes unasked";
    for (constexpr std::size_t most = 16384; rest.size() > kept_back;) {
      const std::string part = rest.substr(0, std::min(most, rest.size() - kept_back));
      rest.erase(0, part.size());
      send(data, rest.empty() ? end_stream : 0, stream, part);
    }
  }

  void grant(std::uint32_t bytes) { send(window_update, 0, stream, big_endian(bytes, 4)); }

  /// Reads until so many bytes of the answer have come or the call is over; the bytes that have come.
  std::size_t read(std::size_t bytes) {
    while (taken_ < bytes && !over_) {
      if (!fill(9)) break;
      const auto number = [&](std::size_t place) {
        return static_cast<std::size_t>(static_cast<unsigned char>(pending_[place]));
      };
      const std::size_t size = number(0) << 16 | number(1) << 8 | number(2);
      const std::size_t type = number(3), flags = number(4), of = number(8);
      if (!fill(9 + size)) break;
      pending_.erase(0, 9 + size);
      if (of != stream) continue;
      if (type == data) taken_ += size;
      if (type == reset || ((type == data || type == headers) && (flags & end_stream) != 0)) over_ = true;
    }
    return taken_;
  }

  [[nodiscard]] bool is_over() const { return over_; }

 private:
  enum Type : std::uint8_t { data = 0, headers = 1, reset = 3, settings = 4, window_update = 8 };

  static constexpr std::uint8_t end_stream = 1, acknowledges = 1, end_headers = 4;
  static constexpr std::uint32_t stream = 1, initial_window_size = 4;

  void send(Type type, std::uint8_t flags, std::uint32_t of, const std::string& payload) {
    client_.send(big_endian(static_cast<std::uint32_t>(payload.size()), 3) + big_endian(type, 1) +
                 big_endian(flags, 1) + big_endian(of, 4) + payload);
  }

  bool fill(std::size_t size) {
    while (pending_.size() < size) {
      const std::string more = client_.receive_some(64 << 10, std::chrono::seconds(60));
      if (more.empty()) return false;
      pending_ += more;
    }
    return true;
  }

  RawClient client_;
  std::string pending_;
  std::size_t taken_ = 0;
  bool over_ = false;
};

std::string zeros(std::size_t count) {
  return add_request(std::vector<float>(count)).SerializeAsString();
}

constexpr const char* infer_path = "/inference.GRPCInferenceService/ModelInfer";
constexpr std::uint32_t any_window = std::numeric_limits<std::int32_t>::max();

class UnreadGrpc : public Grpc {
 protected:
  [[nodiscard]] const GrpcMethodCounts& counted(const std::string& path) const {
    for (const GrpcMethodCounts& method : server_->counts()->methods()) {
      if ("/" + std::string(method.service) + "/" + std::string(method.method) == path) return method;
    }
    throw std::runtime_error("no counts of " + path);
  }

  [[nodiscard]] static std::uint64_t given_up(const GrpcMethodCounts& method) {
    return method.ended.at(StatusCode::DEADLINE_EXCEEDED);
  }
};

TEST_F(UnreadGrpc, CallsOfEveryKindEnd) {
  GrpcServerOptions options;
  options.message_timeout = milliseconds(100);
  options.min_bytes_per_second = 1 << 30;
  serve({"add"}, options);

  struct Line {
    const char* path;
    std::string message;
    std::uint32_t window;
  };

  for (const Line& line : std::vector<Line>{{infer_path, zeros(3), 0},
                                            {infer_path, zeros(300'000), 0},
                                            {infer_path, zeros(300'000), 100'000},
                                            {"/inference.GRPCInferenceService/ModelStreamInfer", zeros(3), 0},
                                            {"/inference.GRPCInferenceService/ModelStreamInfer", zeros(300'000), 9},
                                            {"/grpc.health.v1.Health/Watch", "", 0}}) {
    SCOPED_TRACE(std::string(line.path) + " " + std::to_string(line.window));
    const GrpcMethodCounts& method = counted(line.path);
    const std::uint64_t before = given_up(method);
    RawCall call(server_->port(), line.path, line.message, line.window);
    EXPECT_LE(call.read(1 << 30), line.window);
    EXPECT_TRUE(call.is_over());
    EXPECT_TRUE(wait_for([&] { return method.in_flight() == 0; }));
    EXPECT_EQ(given_up(method), before + 1);
    expect_alive();
  }
}

TEST_F(UnreadGrpc, RequestsThatDoNotArriveEnd) {
  GrpcServerOptions options;
  options.message_timeout = milliseconds(100);
  options.min_bytes_per_second = 1 << 30;
  serve({"add"}, options);
  for (const char* path : {infer_path, "/grpc.health.v1.Health/Watch"}) {
    const std::string message = zeros(3);
    for (const std::size_t kept_back : {std::size_t{1}, 5 + http::compressed(message, 31).size()}) {
      SCOPED_TRACE(std::string(path) + " " + std::to_string(kept_back));
      const GrpcMethodCounts& method = counted(path);
      const std::uint64_t before = given_up(method), received = method.received;
      RawCall call(server_->port(), path, message, any_window, 0, kept_back);
      EXPECT_EQ(call.read(1), 0U);
      EXPECT_TRUE(call.is_over());
      EXPECT_TRUE(wait_for([&] { return method.in_flight() == 0; }));
      EXPECT_EQ(given_up(method), before + 1);
      EXPECT_EQ(method.received, received);
      expect_alive();
    }
  }
}

// A client that has begun a call and says nothing is told why it ends; a stream may be as quiet as it likes.
TEST_F(UnreadGrpc, SilenceEndsACallOfOneRequestAlone) {
  GrpcServerOptions options;
  options.message_timeout = milliseconds(100);
  options.min_bytes_per_second = 1 << 30;
  serve({"add"}, options);
  const auto channel =
      ::grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), ::grpc::InsecureChannelCredentials());
  const auto stream_context = context(), call_context = context();
  const auto stub = inference::GRPCInferenceService::NewStub(channel);
  const auto stream = stub->ModelStreamInfer(stream_context.get());

  ::grpc::GenericStub generic(channel);
  ::grpc::CompletionQueue queue;
  const auto call = generic.PrepareCall(call_context.get(), infer_path, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("did not arrive in time"));

  std::this_thread::sleep_for(2 * options.message_timeout);
  inference::ModelStreamInferResponse response;
  EXPECT_TRUE(stream->Write(add_request({1, 2, 3})));
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// A large answer has time to be taken slowly.
TEST_F(UnreadGrpc, SlowClientsAreWaitedFor) {
  constexpr std::size_t count = 300'000;

  struct Line {
    std::uint64_t min_bytes_per_second;
    bool gets_all;
  };

  for (const Line& line : {Line{1000, true}, Line{std::uint64_t{1} << 30, false}}) {
    SCOPED_TRACE(line.min_bytes_per_second);
    GrpcServerOptions options;
    options.message_timeout = milliseconds(200);
    options.min_bytes_per_second = line.min_bytes_per_second;
    serve({"add"}, options);
    RawCall call(server_->port(), infer_path, zeros(count), 200'000);
    EXPECT_EQ(call.read(200'000), 200'000U);
    const GrpcMethodCounts& method = counted(infer_path);
    if (line.gets_all) {
      std::this_thread::sleep_for(4 * options.message_timeout);
    } else {
      EXPECT_TRUE(wait_for([&] { return given_up(method) == 1; }));
    }
    call.grant(any_window - 200'000);
    const std::size_t came = call.read(1 << 30);
    EXPECT_TRUE(call.is_over());
    EXPECT_EQ(came > count * sizeof(float), line.gets_all) << came;
    EXPECT_TRUE(wait_for([&] { return method.in_flight() == 0; }));
    EXPECT_EQ(method.ended.at(StatusCode::OK), line.gets_all ? 1U : 0U);
    server_.reset();
  }
}

// Not even the socket is read: the connection ends, as no end of a call would get through.
TEST_F(UnreadGrpc, ConnectionsThatAreNotReadEnd) {
  GrpcServerOptions options;
  options.message_timeout = milliseconds(100);
  options.min_bytes_per_second = 1 << 30;
  options.connection_timeout = milliseconds(500);
  serve({"add"}, options);
  // Larger than what the kernel takes on both sides.
  RawCall call(server_->port(), infer_path, zeros(12'000'000), any_window, 4096);
  const GrpcMethodCounts& method = counted(infer_path);
  EXPECT_TRUE(wait_for([&] { return method.started == 1 && method.in_flight() == 0; }));
  EXPECT_EQ(given_up(method), 1U);
  expect_alive();
}

// gRPC's own client, which answers pings while nobody reads its stream.
TEST_F(UnreadGrpc, StreamsEndForClientsThatGoOnAsking) {
  GrpcServerOptions options;
  options.message_timeout = milliseconds(200);
  options.min_bytes_per_second = 1 << 30;
  serve({"add"}, options);
  const auto stub = inference::GRPCInferenceService::NewStub(narrow_channel());
  const auto given = context();
  const auto stream = stub->ModelStreamInfer(given.get());
  const GrpcMethodCounts& method = counted("/inference.GRPCInferenceService/ModelStreamInfer");
  constexpr std::uint64_t asked = 8;
  // On a slow machine it is given up while it still asks.
  std::uint64_t written = 0;
  while (written < asked && stream->Write(add_request(std::vector<float>(300'000)))) ++written;
  EXPECT_GT(written, 0U);
  EXPECT_TRUE(wait_for([&] { return given_up(method) == 1; }));
  EXPECT_EQ(method.in_flight(), 0U);
  EXPECT_LT(method.sent, asked);
  expect_alive();
  inference::ModelStreamInferResponse response;
  std::uint64_t came = 0;
  while (stream->Read(&response)) ++came;
  EXPECT_LT(came, asked);
  const Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("did not read the answer in time"));
}

}  // namespace
}  // namespace gpux::server
