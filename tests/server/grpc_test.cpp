// The Open Inference Protocol over gRPC, met by a client of gRPC's own over loopback.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif
#endif

#include "base/files.h"
#include "base/temporary_folder.h"
#include "server/certificate.h"
#include "server/kept_spans.h"
#include "server/served_grpc.h"

namespace gpux::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Grpc, ReportsServerAndModelMetadata) {
  serve({"add", "zipmap_string"});
  inference::ServerLiveResponse live;
  ASSERT_TRUE(stub_->ServerLive(context().get(), {}, &live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(context().get(), {}, &ready).ok());
  EXPECT_TRUE(ready.ready());

  inference::ServerMetadataResponse server;
  ASSERT_TRUE(stub_->ServerMetadata(context().get(), {}, &server).ok());
  EXPECT_EQ(server.name(), "gpux");
  EXPECT_THAT(server.extensions(), testing::Contains("model_repository"));

  inference::ModelReadyRequest asks_ready;
  asks_ready.set_name("add");
  asks_ready.set_version("1");
  inference::ModelReadyResponse model_ready;
  ASSERT_TRUE(stub_->ModelReady(context().get(), asks_ready, &model_ready).ok());
  EXPECT_TRUE(model_ready.ready());
  asks_ready.set_version("2");
  ASSERT_TRUE(stub_->ModelReady(context().get(), asks_ready, &model_ready).ok());
  EXPECT_FALSE(model_ready.ready());

  inference::ModelMetadataRequest asks_model;
  asks_model.set_name("add");
  inference::ModelMetadataResponse model;
  ASSERT_TRUE(stub_->ModelMetadata(context().get(), asks_model, &model).ok());
  EXPECT_EQ(model.name(), "add");
  EXPECT_THAT(model.versions(), ElementsAre("1"));
  ASSERT_EQ(model.inputs_size(), 1);
  EXPECT_EQ(model.inputs(0).datatype(), "FP32");
  EXPECT_THAT(model.inputs(0).shape(), ElementsAre(-1, 3));
  asks_model.set_name("zipmap_string");
  ASSERT_TRUE(stub_->ModelMetadata(context().get(), asks_model, &model).ok());
  EXPECT_EQ(model.outputs(0).datatype(), "sequence(map(string, float32[]))");

  inference::ModelConfigRequest asks_config;
  asks_config.set_name("add");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(stub_->ModelConfig(context().get(), asks_config, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 32);
  EXPECT_EQ(config.config().input(0).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.config().input(0).dims(), ElementsAre(3));
}

struct Datatype {
  const char* model;
  const char* name;
  std::string bytes;                               // of two elements
  void (*write)(inference::InferTensorContents&);  // null: has no typed form
  std::string (*read)(const inference::InferTensorContents&);
};

template <typename Field>
std::string shown(const Field& values) {
  std::string text;
  for (const auto& value : values) text += std::to_string(value) + " ";
  return text;
}

const std::vector<Datatype>& datatypes() {
  using Contents = inference::InferTensorContents;
  static const std::vector<Datatype> rows{
      {"bool", "BOOL", std::string("\0\x01", 2),
       [](Contents& c) {
         c.add_bool_contents(false);
         c.add_bool_contents(true);
       },
       [](const Contents& c) {
         return raw<std::uint8_t>({c.bool_contents(0), c.bool_contents(1)});
       }},
      {"uint8", "UINT8", raw<std::uint8_t>({0, 255}),
       [](Contents& c) {
         c.add_uint_contents(0);
         c.add_uint_contents(255);
       },
       [](const Contents& c) {
         return raw<std::uint8_t>(
             {static_cast<std::uint8_t>(c.uint_contents(0)), static_cast<std::uint8_t>(c.uint_contents(1))});
       }},
      {"uint16", "UINT16", raw<std::uint16_t>({1, 65535}),
       [](Contents& c) {
         c.add_uint_contents(1);
         c.add_uint_contents(65535);
       },
       [](const Contents& c) {
         return raw<std::uint16_t>(
             {static_cast<std::uint16_t>(c.uint_contents(0)), static_cast<std::uint16_t>(c.uint_contents(1))});
       }},
      {"uint32", "UINT32", raw<std::uint32_t>({1, 4294967295U}),
       [](Contents& c) {
         c.add_uint_contents(1);
         c.add_uint_contents(4294967295U);
       },
       [](const Contents& c) {
         return raw<std::uint32_t>({c.uint_contents(0), c.uint_contents(1)});
       }},
      {"uint64", "UINT64", raw<std::uint64_t>({1, UINT64_MAX}),
       [](Contents& c) {
         c.add_uint64_contents(1);
         c.add_uint64_contents(UINT64_MAX);
       },
       [](const Contents& c) {
         return raw<std::uint64_t>({c.uint64_contents(0), c.uint64_contents(1)});
       }},
      {"int8", "INT8", raw<std::int8_t>({-128, 127}),
       [](Contents& c) {
         c.add_int_contents(-128);
         c.add_int_contents(127);
       },
       [](const Contents& c) {
         return raw<std::int8_t>(
             {static_cast<std::int8_t>(c.int_contents(0)), static_cast<std::int8_t>(c.int_contents(1))});
       }},
      {"int16", "INT16", raw<std::int16_t>({-32768, 1}),
       [](Contents& c) {
         c.add_int_contents(-32768);
         c.add_int_contents(1);
       },
       [](const Contents& c) {
         return raw<std::int16_t>(
             {static_cast<std::int16_t>(c.int_contents(0)), static_cast<std::int16_t>(c.int_contents(1))});
       }},
      {"int32", "INT32", raw<std::int32_t>({INT32_MIN, 1}),
       [](Contents& c) {
         c.add_int_contents(INT32_MIN);
         c.add_int_contents(1);
       },
       [](const Contents& c) {
         return raw<std::int32_t>({c.int_contents(0), c.int_contents(1)});
       }},
      {"int64", "INT64", raw<std::int64_t>({INT64_MIN, INT64_MAX}),
       [](Contents& c) {
         c.add_int64_contents(INT64_MIN);
         c.add_int64_contents(INT64_MAX);
       },
       [](const Contents& c) {
         return raw<std::int64_t>({c.int64_contents(0), c.int64_contents(1)});
       }},
      {"float16", "FP16", raw<std::uint16_t>({0x3c00, 0x0001}), nullptr, nullptr},
      {"bfloat16", "BF16", raw<std::uint16_t>({0x3f80, 0x0001}), nullptr, nullptr},
      {"float32", "FP32", raw<float>({0.1F, 1e-45F}),
       [](Contents& c) {
         c.add_fp32_contents(0.1F);
         c.add_fp32_contents(1e-45F);
       },
       [](const Contents& c) {
         return raw<float>({c.fp32_contents(0), c.fp32_contents(1)});
       }},
      {"float64", "FP64", raw<double>({0.1, 5e-324}),
       [](Contents& c) {
         c.add_fp64_contents(0.1);
         c.add_fp64_contents(5e-324);
       },
       [](const Contents& c) {
         return raw<double>({c.fp64_contents(0), c.fp64_contents(1)});
       }},
      {"string", "BYTES", std::string("\x02\0\0\0a\0\0\0\0\0", 10),
       [](Contents& c) {
         c.add_bytes_contents(std::string("a\0", 2));
         c.add_bytes_contents("");
       },
       [](const Contents& c) {
         std::string text;
         for (const std::string& value : c.bytes_contents()) {
           text += raw<std::uint32_t>({static_cast<std::uint32_t>(value.size())}) + value;
         }
         return text;
       }},
  };
  return rows;
}

// Raw contents come back raw, typed ones typed, and neither changes a bit.
TEST_F(Grpc, EveryDatatypeGoesRound) {
  std::vector<std::string> models;
  for (const Datatype& row : datatypes()) models.push_back(std::string("identity_") + row.model);
  serve(models);
  for (const Datatype& row : datatypes()) {
    SCOPED_TRACE(row.name);
    ModelInferRequest request = request_for(std::string("identity_") + row.model);
    add_input(request, "x", row.name, {2});
    ModelInferRequest typed = request;
    // ONNX Runtime's strings end at their first zero byte.
    const bool ends_at_zero = std::string(row.name) == "BYTES";
    const std::string bytes = ends_at_zero ? std::string("\x01\0\0\0a\0\0\0\0", 9) : row.bytes;
    request.add_raw_input_contents(bytes);
    const ModelInferResponse answer = must_infer(request);
    ASSERT_EQ(answer.outputs_size(), 1);
    EXPECT_EQ(answer.outputs(0).datatype(), row.name);
    EXPECT_THAT(answer.outputs(0).shape(), ElementsAre(2));
    EXPECT_FALSE(answer.outputs(0).has_contents());
    ASSERT_EQ(answer.raw_output_contents_size(), 1);
    EXPECT_EQ(answer.raw_output_contents(0), bytes);

    if (row.write == nullptr) {
      typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
      ModelInferResponse refused;
      const Status status = infer(typed, refused);
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
      EXPECT_THAT(status.error_message(), HasSubstr("raw_input_contents"));
      continue;
    }
    row.write(*typed.mutable_inputs(0)->mutable_contents());
    if (ends_at_zero) typed.mutable_inputs(0)->mutable_contents()->set_bytes_contents(0, "a");
    const ModelInferResponse again = must_infer(typed);
    EXPECT_EQ(again.raw_output_contents_size(), 0);
    ASSERT_EQ(again.outputs_size(), 1);
    EXPECT_EQ(row.read(again.outputs(0).contents()), bytes);
  }
}

TEST_F(Grpc, AnswersAsItIsAsked) {
  ProjectFile project;
  DeclaredValue declared;
  declared.name = "y";
  declared.labels = {"cat", "dog", "eel"};
  project.outputs = {declared};
  project_ = project;
  serve({"add"});

  ModelInferRequest request = add_request({1, 2, 3, 9, 5, 1});
  request.set_id("seven");
  request.set_model_version("1");
  (*request.mutable_parameters())["priority"].set_uint64_param(2);
  (*request.mutable_parameters())["timeout"].set_int64_param(60'000'000);
  (*request.mutable_parameters())["something_of_ones_own"].set_double_param(0.5);
  request.add_outputs()->set_name("y");
  ModelInferResponse response = must_infer(request);
  EXPECT_EQ(response.id(), "seven");
  EXPECT_EQ(response.model_name(), "add");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.raw_output_contents(0), raw<float>({2, 4, 6, 10, 7, 4}));

  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(2);
  response = must_infer(request);
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 2));
  EXPECT_THAT(response.raw_output_contents(0), HasSubstr("6.000000:2:eel"));
  EXPECT_THAT(response.raw_output_contents(0), HasSubstr("10.000000:0:cat"));

  // An output of some size shares its memory with the answer.
  std::vector<float> many(300'000), sums;
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = static_cast<float>(i % 1000);
    sums.push_back(many[i] + static_cast<float>(i % 3 + 1));
  }
  response = must_infer(add_request(many));
  EXPECT_EQ(response.raw_output_contents(0), raw(sums));
  response = must_infer(add_request({}));
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(0, 3));
}

TEST_F(Grpc, NamesTheRequestInItsAnswer) {
  serve({"add"});
  ModelInferResponse response;
  auto given = context();
  given->AddMetadata("x-request-id", "mine");
  given->AddMetadata("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01");
  ASSERT_TRUE(stub_->ModelInfer(given.get(), add_request({1, 2, 3}), &response).ok());
  const auto& metadata = given->GetServerInitialMetadata();
  ASSERT_EQ(metadata.count("x-request-id"), 1U);
  EXPECT_EQ(metadata.find("x-request-id")->second, "mine");
  ASSERT_EQ(metadata.count("traceparent"), 1U);
  EXPECT_TRUE(metadata.find("traceparent")->second.starts_with("00-0123456789abcdef0123456789abcdef-"));
}

TEST_F(Grpc, RecordsTheSpansOfItsRequests) {
  KeptSpans kept;
  GrpcServerOptions options;
  options.tracer = std::make_shared<const Tracer>(kept.tracer());
  serve({"add"}, options);
  ModelInferResponse response;
  auto given = context();
  given->AddMetadata("x-request-id", "mine");
  given->AddMetadata("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01");
  ASSERT_TRUE(stub_->ModelInfer(given.get(), add_request({1, 2, 3}), &response).ok());
  ASSERT_TRUE(wait_for([&] { return kept.requests().size() == 1; }));
  const std::vector<Span> spans = kept.requests()[0];
  ASSERT_GE(spans.size(), 4U);
  const Span& request = spans[0];
  EXPECT_EQ(request.name, "inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(request.kind, SpanKind::server);
  EXPECT_EQ(to_hexadecimal(request.context.trace), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(to_hexadecimal(request.parent), "0123456789abcdef");
  // The client can find it.
  EXPECT_EQ(given->GetServerInitialMetadata().find("traceparent")->second, request.context.traceparent());
  EXPECT_EQ(attribute_of(request, "rpc.method"), AttributeValue(std::string("ModelInfer")));
  EXPECT_EQ(attribute_of(request, "rpc.grpc.status_code"), AttributeValue(std::int64_t{0}));
  EXPECT_EQ(attribute_of(request, "gpux.model"), AttributeValue(std::string("add")));
  EXPECT_EQ(attribute_of(request, "gpux.request.id"), AttributeValue(std::string("mine")));
  EXPECT_THAT(std::get<std::string>(attribute_of(request, "gpux.verdict")), HasSubstr("cpu"));
  EXPECT_EQ(spans[3].name, "run");
  EXPECT_EQ(spans[3].parent, request.context.span);

  // One that the client got wrong is no failure of the server's; what only asks is no span.
  ASSERT_FALSE(infer(request_for("none"), response).ok());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(stub_->ServerReady(context().get(), {}, &ready).ok());
  // Each message of a stream is a request.
  auto streamed = context();
  const auto stream = stub_->ModelStreamInfer(streamed.get());
  inference::ModelStreamInferResponse answer;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write(add_request({1, 2, 3})));
    ASSERT_TRUE(stream->Read(&answer));
  }
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  ASSERT_TRUE(wait_for([&] { return kept.requests().size() == 4; }));
  EXPECT_FALSE(kept.requests()[1][0].is_error);
  EXPECT_EQ(attribute_of(kept.requests()[1][0], "rpc.grpc.status_code"), AttributeValue(std::int64_t{5}));
  EXPECT_EQ(kept.requests()[3][0].name, "inference.GRPCInferenceService/ModelStreamInfer");
  EXPECT_EQ(kept.requests()[3].size(), spans.size());
}

struct Bad {
  const char* what;
  void (*spoil)(ModelInferRequest&);  // a request that is good till then
  StatusCode code;
  const char* words;
};

TEST_F(Grpc, RefusesEachMistakeAndLivesOn) {
  GrpcServerOptions options;
  options.max_message_bytes = 1 << 20;
  serve({"add", "zipmap_string"}, options);
  constexpr auto invalid = StatusCode::INVALID_ARGUMENT;
  for (const Bad& bad : std::vector<Bad>{
           {"no such model", [](auto& r) { r.set_model_name("none"); }, StatusCode::NOT_FOUND, "models: add"},
           {"no model", [](auto& r) { r.clear_model_name(); }, StatusCode::NOT_FOUND, "no model ''"},
           {"no such version", [](auto& r) { r.set_model_version("9"); }, StatusCode::NOT_FOUND, "version '9'"},
           {"no inputs", [](auto& r) { r.clear_inputs(), r.clear_raw_input_contents(); }, invalid, "x"},
           {"another input", [](auto& r) { r.mutable_inputs(0)->set_name("q"); }, invalid, "no input \"q\"; inputs: x"},
           {"an input twice",
            [](auto& r) { r.add_inputs()->CopyFrom(r.inputs(0)), r.add_raw_input_contents(r.raw_input_contents(0)); },
            invalid, "given twice"},
           {"no such datatype", [](auto& r) { r.mutable_inputs(0)->set_datatype("FLOAT"); }, invalid,
            "no datatype \"FLOAT\""},
           {"another datatype", [](auto& r) { r.mutable_inputs(0)->set_datatype("INT32"); }, invalid, "float32"},
           {"no shape", [](auto& r) { r.mutable_inputs(0)->clear_shape(); }, invalid, "of shape []"},
           {"a negative size", [](auto& r) { r.mutable_inputs(0)->set_shape(0, -1); }, invalid, "-1"},
           {"another size", [](auto& r) { r.mutable_inputs(0)->set_shape(0, 2); }, invalid, "12 bytes"},
           {"a shape beyond all memory", [](auto& r) { r.mutable_inputs(0)->set_shape(0, INT64_MAX); }, invalid,
            "64 bits"},
           {"a large shape", [](auto& r) { r.mutable_inputs(0)->set_shape(0, std::int64_t{1} << 40); }, invalid,
            "12 bytes"},
           {"another rank", [](auto& r) { r.mutable_inputs(0)->add_shape(1); }, invalid, "x"},
           {"too few bytes", [](auto& r) { r.set_raw_input_contents(0, "abc"); }, invalid, "3 bytes for FP32"},
           {"raw and typed", [](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); }, invalid,
            "both contents and raw"},
           {"too many raw contents", [](auto& r) { r.add_raw_input_contents("more"); }, invalid,
            "1 inputs and 2 raw_input_contents"},
           {"no contents at all", [](auto& r) { r.clear_raw_input_contents(); }, invalid, "0 elements"},
           {"typed, too few",
            [](auto& r) {
              r.clear_raw_input_contents(), r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
            },
            invalid, "1 elements in fp32_contents for shape [1, 3]"},
           {"typed, another field",
            [](auto& r) { r.clear_raw_input_contents(), r.mutable_inputs(0)->mutable_contents()->add_int_contents(1); },
            invalid, "another field than fp32_contents"},
           {"typed, out of range",
            [](auto& r) {
              r.clear_raw_input_contents();
              r.mutable_inputs(0)->set_datatype("INT8");
              r.mutable_inputs(0)->clear_shape();
              r.mutable_inputs(0)->mutable_contents()->add_int_contents(200);
            },
            invalid, "element 0 is 200, which does not fit INT8"},
           {"BYTES that lie",
            [](auto& r) {
              r.mutable_inputs(0)->set_datatype("BYTES");
              r.set_raw_input_contents(0, std::string("\xff\xff\xff\xff", 4));
            },
            invalid, "claims 4294967295 bytes"},
           {"no such output", [](auto& r) { r.add_outputs()->set_name("z"); }, invalid, "no output \"z\"; outputs: y"},
           {"an output twice", [](auto& r) { r.add_outputs()->set_name("y"), r.add_outputs()->set_name("y"); }, invalid,
            "asked for twice"},
           {"a sequence", [](auto& r) { (*r.mutable_parameters())["sequence_id"].set_int64_param(1); }, invalid,
            "sequences"},
           {"a negative timeout", [](auto& r) { (*r.mutable_parameters())["timeout"].set_int64_param(-1); }, invalid,
            "parameters.timeout"},
           {"a priority that is no number", [](auto& r) { (*r.mutable_parameters())["priority"].set_bool_param(true); },
            invalid, "parameters.priority"},
           {"shared memory for an input",
            [](auto& r) { (*r.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("a"); },
            invalid, "shared memory"},
           {"shared memory for an output",
            [](auto& r) {
              auto& output = *r.add_outputs();
              output.set_name("y");
              (*output.mutable_parameters())["shared_memory_region"].set_string_param("a");
            },
            invalid, "shared memory"},
           {"an output without a form", [](auto& r) { r.set_model_name("zipmap_string"); }, invalid, "/predict"},
           {"a message that is too large",
            [](auto& r) { r.set_raw_input_contents(0, std::string(std::size_t{2} << 20, 'a')); },
            StatusCode::RESOURCE_EXHAUSTED, "at most 1048576 are taken"},
       }) {
    SCOPED_TRACE(bad.what);
    ModelInferRequest request = add_request({1, 2, 3});
    bad.spoil(request);
    ModelInferResponse response;
    const Status status = infer(request, response);
    EXPECT_EQ(status.error_code(), bad.code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(bad.words));
    EXPECT_EQ(status.error_message().find('\n'), std::string::npos);
    expect_alive();
  }
}

// What is no message of the protocol, sent as bytes.
TEST_F(Grpc, RefusesWhatIsNoMessage) {
  GrpcServerOptions options;
  options.max_message_bytes = 1 << 20;
  serve({"add"}, options);
  ::grpc::GenericStub generic(channel_);

  struct Line {
    const char* method;
    std::string bytes;
    bool is_compressed;
    StatusCode code;
    const char* words;
  };

  for (const Line& line : std::vector<Line>{
           {"ModelInfer", "\xff\xff\xff", false, StatusCode::INVALID_ARGUMENT, "no inference.ModelInferRequest"},
           {"ModelInfer", "\x0a\x02\xff\xff", false, StatusCode::INVALID_ARGUMENT, "no inference.ModelInferRequest"},
           {"ModelMetadata", "\x0a\x7f", false, StatusCode::INVALID_ARGUMENT, "no inference.ModelMetadataRequest"},
           // 64 MiB of zeros are 64 KiB compressed.
           {"ModelInfer", std::string(std::size_t{64} << 20, '\0'), true, StatusCode::INVALID_ARGUMENT, "decompressed"},
           {"SystemSharedMemoryStatus", "", false, StatusCode::UNIMPLEMENTED, "shared memory"},
           {"TraceSetting", "", false, StatusCode::UNIMPLEMENTED, "tracing"},
           {"Nothing", "", false, StatusCode::UNIMPLEMENTED, "no method"},
       }) {
    SCOPED_TRACE(std::string(line.method) + line.bytes.substr(0, 9));
    auto given = context();
    if (line.is_compressed) given->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    const ::grpc::Slice slice(line.bytes);
    ::grpc::ByteBuffer request(&slice, 1), response;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Status> status;
    generic.UnaryCall(given.get(), std::string("/inference.GRPCInferenceService/") + line.method, {}, &request,
                      &response, [&](const Status& ended) {
                        const std::lock_guard lock(mutex);
                        status = ended;
                        changed.notify_all();
                      });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return status.has_value(); });
    EXPECT_EQ(status->error_code(), line.code) << status->error_message();
    EXPECT_THAT(status->error_message(), HasSubstr(line.words));
    expect_alive();
  }
}

TEST_F(Grpc, TakesCompressedMessages) {
  serve({"add"});
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    auto given = context();
    given->set_compression_algorithm(algorithm);
    ModelInferResponse response;
    const std::vector<float> zeros(150'000);
    const Status status = stub_->ModelInfer(given.get(), add_request(zeros), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.raw_output_contents(0).size(), zeros.size() * sizeof(float));
  }
}

TEST_F(Grpc, StreamsInOrderOfCompletion) {
  GrpcServerOptions options;
  options.max_stream_requests = 4;
  serve({"add", "slow"}, options);
  auto given = context();
  const auto stream = stub_->ModelStreamInfer(given.get());
  // The slow one goes first and its answer comes last; more come than may be in flight at once.
  ModelInferRequest slow = slow_request(200'000);
  slow.set_id("slow");
  ASSERT_TRUE(stream->Write(slow));
  std::thread writer([&] {
    for (int i = 0; i < 30; ++i) {
      ModelInferRequest request = add_request({1, 2, static_cast<float>(i)});
      request.set_id(std::to_string(i));
      if (i == 7) request.set_model_name("none");
      if (i == 8) request.set_raw_input_contents(0, "abc");
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  std::set<std::string> good, bad;
  inference::ModelStreamInferResponse response;
  std::string last;
  while (stream->Read(&response)) {
    last = response.infer_response().id();
    if (!response.error_message().empty()) {
      EXPECT_THAT(response.error_message(), HasSubstr(last == "7" ? "no model 'none'" : "3 bytes"));
      EXPECT_TRUE(bad.insert(last).second);
      continue;
    }
    EXPECT_TRUE(good.insert(last).second);
    if (last != "slow") {
      EXPECT_EQ(response.infer_response().raw_output_contents(0), raw<float>({2, 4, std::stof(last) + 3}));
    }
  }
  writer.join();
  const Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(bad, ElementsAre("7", "8"));
  EXPECT_EQ(good.size(), 29U);
}

TEST_F(Grpc, CancelsWhatNobodyWaitsForAnyMore) {
  serve({"add", "slow"});
  ModelInferResponse response;
  auto given = context();
  Status status;
  std::thread client([&] { status = stub_->ModelInfer(given.get(), slow_request(for_ever), &response); });
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
  given->TryCancel();
  client.join();
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(wait_for([&] { return counts("slow").cancelled == 1 && counts("slow").overdue_runs == 0; }));

  auto streamed = context();
  const auto stream = stub_->ModelStreamInfer(streamed.get());
  ASSERT_TRUE(stream->Write(slow_request(for_ever)));
  ASSERT_TRUE(stream->Write(slow_request(for_ever)));
  EXPECT_TRUE(wait_for([&] { return counts("slow").running + counts("slow").waiting == 2; }));
  streamed->TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(wait_for([&] { return counts("slow").cancelled == 3 && counts("slow").overdue_runs == 0; }));
  expect_alive();
}

TEST_F(Grpc, EndsAtTheDeadline) {
  serve({"add", "slow"});
  ModelInferResponse response;
  ModelInferRequest request = slow_request(for_ever);
  (*request.mutable_parameters())["timeout"].set_int64_param(20'000);
  Status status = infer(request, response);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << status.error_message();

  auto given = std::make_unique<ClientContext>();
  given->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  status = stub_->ModelInfer(given.get(), slow_request(for_ever), &response);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 0 && counts("slow").waiting == 0; }));
  expect_alive();
}

TEST_F(Grpc, RefusesWhatTheQueueHasNoRoomFor) {
  ServingOptions serving;
  serving.max_queue = 1;
  serve({"add", "slow"}, {}, serving);
  // One runs, one is prepared meanwhile, one waits.
  std::vector<std::unique_ptr<ClientContext>> contexts;
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < 3; ++i) {
    contexts.push_back(context());
    clients.emplace_back([this, given = contexts.back().get()] {
      ModelInferResponse response;
      (void)stub_->ModelInfer(given, slow_request(for_ever), &response);
    });
    EXPECT_TRUE(wait_for([&] { return i < 2 ? counts("slow").running == i + 1 : counts("slow").waiting == 1; }));
  }
  auto given = context();
  ModelInferResponse response;
  const Status status = stub_->ModelInfer(given.get(), slow_request(1), &response);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(given->GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1U);
  for (const auto& made : contexts) made->TryCancel();
  for (std::thread& client : clients) client.join();
}

TEST_F(Grpc, RefusesCallsBeyondItsMemoryBudget) {
  GrpcServerOptions options;
  options.memory = std::make_shared<MemoryBudget>(4500);
  serve({"add", "slow"}, options);
  auto running = context();
  ModelInferResponse response;
  // As messages some 2300 bytes, and 2900.
  std::thread one([&] { (void)stub_->ModelInfer(running.get(), slow_request(for_ever), &response); });
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
  ModelInferResponse other;
  const Status status = infer(add_request(std::vector<float>(600)), other);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("4500 bytes"));
  expect_alive();
  running->TryCancel();
  one.join();
  // What is over is held no more.
  EXPECT_TRUE(wait_for([&] { return infer(add_request(std::vector<float>(600)), other).ok(); }));
}

TEST_F(Grpc, AsksForAKeyWhereItShould) {
  GrpcServerOptions options;
  options.access = access_of({"first-key-123", "second-key-456"});
  serve({"add"}, options);
  const auto call = [&](const char* field, const char* value) {
    auto given = context();
    if (field != nullptr) given->AddMetadata(field, value);
    ModelInferResponse response;
    return stub_->ModelInfer(given.get(), add_request({1, 2, 3}), &response).error_code();
  };
  EXPECT_EQ(call(nullptr, nullptr), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(call("authorization", "Bearer wrong-key-1234"), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(call("authorization", "Bearer second-key-456"), StatusCode::OK);
  EXPECT_EQ(call("x-api-key", "first-key-123"), StatusCode::OK);

  inference::ServerMetadataResponse metadata;
  EXPECT_EQ(stub_->ServerMetadata(context().get(), {}, &metadata).error_code(), StatusCode::UNAUTHENTICATED);
  inference::RepositoryModelUnloadResponse unloaded;
  EXPECT_EQ(stub_->RepositoryModelUnload(context().get(), {}, &unloaded).error_code(), StatusCode::UNAUTHENTICATED);
  auto streamed = context();
  const auto stream = stub_->ModelStreamInfer(streamed.get());
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAUTHENTICATED);

  inference::ServerLiveResponse live;
  EXPECT_TRUE(stub_->ServerLive(context().get(), {}, &live).ok());
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(stub_->ServerReady(context().get(), {}, &ready).ok());
  inference::ModelReadyRequest model;
  model.set_name("add");
  inference::ModelReadyResponse model_ready;
  EXPECT_TRUE(stub_->ModelReady(context().get(), model, &model_ready).ok());
  Health health;
  EXPECT_TRUE(health_->Check(context().get(), {}, &health).ok());
}

TEST_F(Grpc, AdminKeysAloneChangeModels) {
  GrpcServerOptions options;
  const std::vector<ApiKey> keys{{"alice", "first-key-123"}}, admins{{"root", "admin-key-123"}};
  options.access = std::make_shared<Access>(AccessRules{.keys = ApiKeys(keys, admins), .limits = {}});
  const test::TemporaryFolder folder;
  options.audit = std::make_shared<AuditLog>(folder.path() / "audit");
  serve({"add"}, options);
  const auto unload = [&](const char* key) {
    auto given = context();
    given->AddMetadata("x-api-key", key);
    given->AddMetadata("x-request-id", "of-a-test");
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("add");
    inference::RepositoryModelUnloadResponse response;
    return stub_->RepositoryModelUnload(given.get(), request, &response);
  };
  const Status refused = unload("first-key-123");
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("an admin key is needed"));
  auto given = context();
  given->AddMetadata("x-api-key", "first-key-123");
  ModelInferResponse response;
  EXPECT_TRUE(stub_->ModelInfer(given.get(), add_request({1, 2, 3}), &response).ok());
  EXPECT_TRUE(unload("admin-key-123").ok());
  const std::string audit = read_file(folder.path() / "audit");
  EXPECT_THAT(audit, HasSubstr(R"("key":"alice","address":"127.0.0.1","request":"of-a-test","result":"refused")"));
  EXPECT_THAT(audit, HasSubstr(R"("action":"unload","model":"add")"));
  EXPECT_THAT(audit, HasSubstr(R"("key":"root","address":"127.0.0.1","request":"of-a-test","result":"succeeded"})"));
}

TEST_F(Grpc, HoldsKeysToTheirLimits) {
  GrpcServerOptions options;
  LimitRules limits;
  limits.each.requests_per_minute = 3;
  options.access = access_of({"first-key-123", "second-key-456"}, limits);
  serve({"add"}, options);
  auto given = context();
  const auto infer_with = [&](const char* key) {
    given = context();
    given->AddMetadata("x-api-key", key);
    ModelInferResponse response;
    return stub_->ModelInfer(given.get(), add_request({1, 2, 3}), &response);
  };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(infer_with("first-key-123").ok());

  // Each message of a stream is a request.
  auto streamed = context();
  streamed->AddMetadata("x-api-key", "first-key-123");
  const auto stream = stub_->ModelStreamInfer(streamed.get());
  std::vector<std::string> errors;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write(add_request({1, 2, 3})));
    inference::ModelStreamInferResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    errors.push_back(answer.error_message());
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(errors.front(), "");
  EXPECT_THAT(errors.back(), HasSubstr("'key-1' may send 3 requests per minute"));

  const Status refused = infer_with("first-key-123");
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const auto& trailers = given->GetServerTrailingMetadata();
  ASSERT_NE(trailers.find("retry-after"), trailers.end());
  EXPECT_GE(
      std::stoi(std::string(trailers.find("retry-after")->second.data(), trailers.find("retry-after")->second.size())),
      1);
  EXPECT_TRUE(infer_with("second-key-456").ok());
  const auto counts = options.limiter->counts();
  EXPECT_EQ(counts.at("key-1").requests, 3U);
  EXPECT_EQ(counts.at("key-1").refused.at(0), 2U);
  EXPECT_EQ(counts.at("key-2").requests, 1U);
}

TEST_F(Grpc, AsksForACertificateOfClients) {
  const test::TemporaryFolder folder;
  const auto file = [&](const char* name) { return folder.path() / name; };
  test::write_certificate("authority", file("ca.pem"), file("ca.key"));
  test::write_certificate("robot", file("robot.pem"), file("robot.key"), file("ca.pem"), file("ca.key"));
  test::write_certificate("stranger", file("stranger.pem"), file("stranger.key"));
  GrpcServerOptions options;
  options.tls_certificate = file("server.pem");
  options.tls_key = file("server.key");
  test::write_certificate("first", options.tls_certificate, options.tls_key);
  options.tls_client_ca = file("ca.pem");
  LimitRules limits;
  limits.by_key["cert:robot"].requests_per_minute = 100;
  options.access = access_of({}, limits);
  serve({"add"}, options);
  const auto answers = [&](const std::string& client) {
    ::grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("first");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    ::grpc::SslCredentialsOptions with{.pem_root_certs = read_file(options.tls_certificate)};
    if (!client.empty()) {
      with.pem_private_key = read_file(folder.path() / (client + ".key"));
      with.pem_cert_chain = read_file(folder.path() / (client + ".pem"));
    }
    const auto channel = ::grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                                     ::grpc::SslCredentials(with), arguments);
    ModelInferResponse response;
    return inference::GRPCInferenceService::NewStub(channel)
        ->ModelInfer(context().get(), add_request({1, 2, 3}), &response)
        .ok();
  };
  EXPECT_TRUE(answers("robot"));
  EXPECT_FALSE(answers("stranger"));
  EXPECT_FALSE(answers(""));
  EXPECT_EQ(options.limiter->counts().at("cert:robot").requests, 1U);
}

TEST_F(Grpc, TellsItsHealth) {
  GrpcServerOptions options;
  options.watch_interval = std::chrono::milliseconds(10);
  serve({"add"}, options);
  const auto check = [&](const std::string& service) -> std::string {
    ::grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    Health response;
    const Status status = health_->Check(context().get(), request, &response);
    return status.ok() ? Health::ServingStatus_Name(response.status()) : std::to_string(status.error_code());
  };
  EXPECT_EQ(check(""), "SERVING");
  EXPECT_EQ(check("add"), "SERVING");
  EXPECT_EQ(check("inference.GRPCInferenceService"), "SERVING");
  EXPECT_EQ(check("none"), std::to_string(StatusCode::NOT_FOUND));

  auto given = context();
  ::grpc::health::v1::HealthCheckRequest request;
  request.set_service("add");
  const auto watch = health_->Watch(given.get(), request);
  Health health;
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), Health::SERVING);
  server_->set_ready(false);
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), Health::NOT_SERVING);
  EXPECT_EQ(check(""), "NOT_SERVING");
  EXPECT_EQ(check("add"), "NOT_SERVING");
  server_->set_ready(true);
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), Health::SERVING);
  // Without a word to the watch: found by looking again.
  std::atomic<bool> unloaded = false;
  repository_->unload("add", [&](const std::optional<Error>&) { unloaded = true; });
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), Health::SERVICE_UNKNOWN);
  given->TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(wait_for([&] { return unloaded.load(); }));
}

TEST_F(Grpc, LoadsAndUnloads) {
  serve({"add", "divide"});
  const auto index = [&](bool ready) {
    inference::RepositoryIndexRequest request;
    request.set_ready(ready);
    inference::RepositoryIndexResponse response;
    EXPECT_TRUE(stub_->RepositoryIndex(context().get(), request, &response).ok());
    std::vector<std::string> lines;
    for (const auto& model : response.models()) lines.push_back(model.name() + " " + model.state());
    return lines;
  };
  EXPECT_THAT(index(false), ElementsAre("add READY", "divide READY"));
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("add");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(true);
  inference::RepositoryModelUnloadResponse unloaded;
  ASSERT_TRUE(stub_->RepositoryModelUnload(context().get(), unload, &unloaded).ok());
  EXPECT_THAT(index(false), ElementsAre("add UNAVAILABLE", "divide READY"));
  EXPECT_THAT(index(true), ElementsAre("divide READY"));
  ModelInferResponse response;
  EXPECT_EQ(infer(add_request({1, 2, 3}), response).error_code(), StatusCode::NOT_FOUND);

  inference::RepositoryModelLoadRequest load;
  inference::RepositoryModelLoadResponse loaded;
  load.set_model_name("add");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_EQ(stub_->RepositoryModelLoad(context().get(), load, &loaded).error_code(), StatusCode::INVALID_ARGUMENT);
  load.clear_parameters();
  ASSERT_TRUE(stub_->RepositoryModelLoad(context().get(), load, &loaded).ok());
  expect_alive();
  load.set_model_name("none");
  EXPECT_EQ(stub_->RepositoryModelLoad(context().get(), load, &loaded).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(Grpc, AnswersToTagsAndIds) {
  const std::string digest = "0123456789ab" + std::string(52, 'c');
  std::vector<ModelSource> sources{source("add", {}), source("scalar", {})};
  sources.front().aliases = {{"adder:v1"}, digest};
  sources.back().aliases = {{"both:v1"}, "fff"};
  serve_sources(sources);
  for (const std::string& alias : {std::string("adder:v1"), digest.substr(0, 12), "sha256:" + digest}) {
    SCOPED_TRACE(alias);
    ModelInferRequest request = add_request({1, 2, 3});
    request.set_model_name(alias);
    EXPECT_EQ(must_infer(request).model_name(), "add");
    request.set_model_version("1");
    EXPECT_EQ(must_infer(request).model_name(), "add");
    request.set_model_version("2");
    ModelInferResponse response;
    EXPECT_EQ(infer(request, response).error_code(), StatusCode::NOT_FOUND);

    inference::ModelMetadataRequest asks_model;
    asks_model.set_name(alias);
    inference::ModelMetadataResponse model;
    ASSERT_TRUE(stub_->ModelMetadata(context().get(), asks_model, &model).ok());
    EXPECT_EQ(model.name(), "add");
    inference::ModelReadyRequest asks_ready;
    asks_ready.set_name(alias);
    inference::ModelReadyResponse ready;
    ASSERT_TRUE(stub_->ModelReady(context().get(), asks_ready, &ready).ok());
    EXPECT_TRUE(ready.ready());
    ::grpc::health::v1::HealthCheckRequest asks_health;
    asks_health.set_service(alias);
    Health health;
    ASSERT_TRUE(health_->Check(context().get(), asks_health, &health).ok());
    EXPECT_EQ(health.status(), Health::SERVING);

    inference::RepositoryModelUnloadRequest unload;
    unload.set_model_name(alias);
    inference::RepositoryModelUnloadResponse unloaded;
    EXPECT_TRUE(stub_->RepositoryModelUnload(context().get(), unload, &unloaded).ok());
    EXPECT_EQ(repository_->names(), std::vector<std::string>{"scalar"});
    inference::RepositoryModelLoadRequest load;
    load.set_model_name(alias);
    inference::RepositoryModelLoadResponse loaded;
    EXPECT_TRUE(stub_->RepositoryModelLoad(context().get(), load, &loaded).ok());
    expect_alive();
  }

  // The failure of a streamed request has the model's own name, too.
  auto streaming = context();
  const auto stream = stub_->ModelStreamInfer(streaming.get());
  ModelInferRequest wrong = request_for("adder:v1");
  ASSERT_TRUE(stream->Write(wrong));
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_NE(answer.error_message(), "");
  EXPECT_EQ(answer.infer_response().model_name(), "add");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(Grpc, RefusesAnAliasOfTwoModels) {
  std::vector<ModelSource> sources{source("add", {}), source("scalar", {})};
  for (ModelSource& source : sources) source.aliases.names = {"both:v1"};
  serve_sources(sources);
  ModelInferRequest request = add_request({1, 2, 3});
  request.set_model_name("both:v1");
  ModelInferResponse response;
  const Status status = infer(request, response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("'add' (version 1), 'scalar' (version 1)"));
}

TEST_F(Grpc, CountsEachRequestOnce) {
  serve({"add"});
  ModelInferResponse response;
  EXPECT_TRUE(infer(add_request({1, 2, 3}), response).ok());
  EXPECT_TRUE(infer(add_request({1, 2, 3, 4, 5, 6}), response).ok());
  ModelInferRequest bad = add_request({1, 2, 3});
  bad.set_raw_input_contents(0, "abc");
  EXPECT_FALSE(infer(bad, response).ok());
  bad = add_request({1, 2, 3});
  bad.mutable_inputs(0)->add_shape(1);
  EXPECT_FALSE(infer(bad, response).ok());

  inference::ModelStatisticsResponse all;
  ASSERT_TRUE(stub_->ModelStatistics(context().get(), {}, &all).ok());
  ASSERT_EQ(all.model_stats_size(), 1);
  const inference::ModelStatistics& counted = all.model_stats(0);
  EXPECT_EQ(counted.name(), "add");
  EXPECT_EQ(counted.inference_stats().success().count(), 2U);
  EXPECT_EQ(counted.inference_stats().fail().count(), 2U);
  EXPECT_EQ(counted.inference_count(), 3U);
  EXPECT_EQ(counted.execution_count(), 2U);
  std::uint64_t runs = 0, rows = 0;
  for (const auto& batch : counted.batch_stats()) {
    runs += batch.compute_infer().count();
    rows += batch.compute_infer().count() * batch.batch_size();
  }
  EXPECT_EQ(runs, counted.execution_count());
  EXPECT_EQ(rows, counted.inference_count());
  const auto& sums = counted.inference_stats();
  EXPECT_GE(sums.success().ns(), sums.queue().ns() + sums.compute_infer().ns());
  inference::ModelStatisticsRequest none;
  none.set_name("none");
  EXPECT_EQ(stub_->ModelStatistics(context().get(), none, &all).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(Grpc, AnswersEachOfManyAtOnce) {
  GrpcServerOptions options;
  options.threads = 4;
  options.read_here_bytes = 256;
  serve({"add"}, options);
  constexpr int clients = 8, calls = 120;
  std::atomic<int> answered = 0, left = 0;
  const auto work = [&](int client) {
    ::grpc::ChannelArguments arguments;
    arguments.SetInt("client", client);  // a connection of its own
    const auto stub = inference::GRPCInferenceService::NewStub(::grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(server_->port()), ::grpc::InsecureChannelCredentials(), arguments));
    for (int call = 0; call < calls; ++call) {
      // Short and long ones: the latter are taken apart by other threads.
      std::vector<float> values(call % 3 == 0 ? 300 : 3);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(client * calls + call) + static_cast<float>(i);
      const auto asking = context();
      const bool leaves = call % 5 == 4;
      if (leaves) asking->set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(call * 10));
      ModelInferResponse response;
      const Status status = stub->ModelInfer(asking.get(), add_request(values), &response);
      if (leaves && !status.ok()) {
        EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED) << status.error_message();
        ++left;
        continue;
      }
      ASSERT_TRUE(status.ok()) << status.error_message();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(i % 3 + 1);
      ASSERT_EQ(response.raw_output_contents_size(), 1);
      EXPECT_EQ(response.raw_output_contents(0), raw(values));
      ++answered;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int client = 0; client < clients; ++client) threads.emplace_back(work, client);
  }
  EXPECT_EQ(answered + left, clients * calls);
  EXPECT_GE(answered, clients * calls * 4 / 5);
  expect_alive();
  const auto& methods = server_->counts()->methods();
  EXPECT_TRUE(wait_for([&] {
    return std::all_of(methods.begin(), methods.end(), [](const auto& method) { return method.in_flight() == 0; });
  }));
}

TEST_F(Grpc, ConnectionsOfAnAgeEndWithoutAFailedCall) {
  serve({"add"}, {.max_connection_age = std::chrono::milliseconds(100)});
  const auto until = Clock::now() + std::chrono::seconds(1);
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (Clock::now() < until) expect_alive();
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(wait_for([&] { return channel_->GetState(false) == GRPC_CHANNEL_IDLE; }));
  expect_alive();
}

TEST_F(Grpc, DrainsWhatIsInFlight) {
  serve({"add", "slow"});
  ModelInferResponse response;
  Status status;
  auto given = context(), streamed = context(), watched = context();
  const auto idle = stub_->ModelStreamInfer(streamed.get());
  ASSERT_TRUE(idle->Write(add_request({1, 2, 3})));
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(idle->Read(&answer));
  const auto watch = health_->Watch(watched.get(), {});
  Health health;
  ASSERT_TRUE(watch->Read(&health));
  std::thread client([&] { status = stub_->ModelInfer(given.get(), slow_request(300'000), &response); });
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
  EXPECT_TRUE(server_->drain(Clock::now() + patience));
  client.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(idle->Read(&answer));
  EXPECT_EQ(idle->Finish().error_code(), StatusCode::UNAVAILABLE);
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), Health::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&health));
}

TEST_F(Grpc, CutsOffWhatDoesNotEnd) {
  serve({"slow"});
  ModelInferResponse response;
  Status status;
  auto given = context();
  std::thread client([&] { status = stub_->ModelInfer(given.get(), slow_request(for_ever), &response); });
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 1; }));
  EXPECT_FALSE(server_->drain(Clock::now() + std::chrono::milliseconds(50)));
  client.join();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(wait_for([&] { return counts("slow").running == 0; }));
}

TEST_F(Grpc, ServesWithItsOwnCertificateAndReadsItAgain) {
  const test::TemporaryFolder folder;
  GrpcServerOptions options;
  options.tls_certificate = folder.path() / "certificate.pem";
  options.tls_key = folder.path() / "key.pem";
  test::write_certificate("first", options.tls_certificate, options.tls_key);
  serve({"add"}, options);
  // A connection of its own that trusts the certificate in that file alone.
  const auto answers_as = [&](const std::string& name) {
    ::grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(name);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = ::grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(server_->port()),
        ::grpc::SslCredentials({.pem_root_certs = read_file(options.tls_certificate)}), arguments);
    ModelInferResponse response;
    return inference::GRPCInferenceService::NewStub(channel)
        ->ModelInfer(context().get(), add_request({1, 2, 3}), &response)
        .ok();
  };
  EXPECT_TRUE(answers_as("first"));
  EXPECT_FALSE(answers_as("second"));
  ModelInferResponse response;
  EXPECT_EQ(infer(add_request({1, 2, 3}), response).error_code(), StatusCode::UNAVAILABLE) << "without TLS";
  test::write_certificate("second", options.tls_certificate, options.tls_key);
  EXPECT_TRUE(wait_for([&] { return answers_as("second"); }));

  test::write_certificate("other", folder.path() / "other.pem", folder.path() / "other.key");
  options.tls_key = folder.path() / "other.key";
  try {
    const GrpcServer mismatched(*repository_, options);
    ADD_FAILURE() << "a certificate without its key was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_THAT(error.message(), HasSubstr("other.key"));
  }
}

TEST_F(Grpc, SaysThatThePortIsTaken) {
  serve({"add"});
  GrpcServerOptions options;
  options.port = server_->port();
  try {
    const GrpcServer second(*repository_, options);
    ADD_FAILURE() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::network);
    EXPECT_THAT(error.message(), HasSubstr(std::to_string(options.port)));
  }
  expect_alive();
}

}  // namespace
}  // namespace gpux::server

// Ends as the program does: libraries leave threads behind that do not survive the end of what they use.
int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  const int code = RUN_ALL_TESTS();
  std::fflush(nullptr);
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  __lsan_do_leak_check();
#endif
#endif
  ::_exit(code);
}
