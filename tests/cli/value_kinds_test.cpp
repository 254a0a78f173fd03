// Every kind of value that a model can declare: the server is ready, and the command line and HTTP take it as JSON.
#include <atomic>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/serving.h"

namespace gpux::test {
namespace {

using http::Answered;
using http::get;
using http::post;
using testing::HasSubstr;

struct Kind {
  std::string model;   ///< of tests/models; it answers with its input
  std::string given;   ///< the input as JSON
  std::string answer;  ///< the output as JSON; empty: as given
};

std::vector<Kind> kinds() {
  std::vector<Kind> all{
      {"identity_float32", "[1.5, -2]", "[1.5, -2.0]"},
      {"identity_bool", "[true, false]"},
      {"identity_string", R"(["a", ""])"},
      {"identity_uint64", "[18446744073709551615]"},
      {"pass_through_sequence", "[[1.5, 2.5], []]"},
      {"pass_through_sequence", "[]"},
      {"pass_through_sequence_string", R"([["a", "b"], ["c"]])"},
      {"pass_through_optional", "[1.5]"},
      {"pass_through_optional", "null"},
      {"pass_through_optional_sequence", "[[1.5], [2.5, 3.5]]"},
      {"pass_through_optional_sequence", "null"},
      {"pass_through_map_string_float32", R"({"a": 1.5, "b": 2.5})"},
      {"pass_through_map_string_float32", R"({"a": [1.5], "b": 2.5})", R"({"a": 1.5, "b": 2.5})"},
      {"pass_through_map_string_float64", R"({"a": 0.1})"},
      {"pass_through_map_string_int64", R"({"a": 9007199254740993})"},
      {"pass_through_map_string_string", R"({"a": "b"})"},
      {"pass_through_map_int64_float32", R"({"-3": 1.5})"},
      {"pass_through_map_int64_float64", R"({"3": 0.1})"},
      {"pass_through_map_int64_int64", R"({"3": 4})"},
      {"pass_through_map_int64_string", R"({"3": "b"})"},
      {"pass_through_sequence_map_string", R"([{"a": 1.5}, {"b": 2.5}])"},
      {"pass_through_sequence_map_int64", R"([{"3": [1.5]}])", R"([{"3": 1.5}])"},
  };
  for (const char* type : {"float16", "bfloat16", "float64", "float8e4m3fn", "float8e5m2"}) {
    all.push_back({std::string("identity_").append(type), "[1.5, -2.0]"});
  }
  for (const char* type : {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "int4", "uint4"}) {
    all.push_back({std::string("identity_").append(type), "[1, 2]"});
  }
  return all;
}

std::string input_of(const Kind& kind) {
  return fmt::format(R"({{"x": {}}})", kind.given);
}

// The models name their output "y", or "x" where it is the input itself.
Json answered(const Kind& kind, const Json& answer) {
  EXPECT_EQ(answer.size(), 1U) << kind.model << answer;
  return answer.empty() ? Json() : answer.items().begin().value();
}

Json expected(const Kind& kind) {
  return Json::parse(kind.answer.empty() ? kind.given : kind.answer);
}

TEST(ValueKinds, GoInAndOutOfTheCommandLine) {
  const Program gpux;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.model + " " + kind.given);
    const Outcome outcome = gpux.run({"run", model(kind.model + ".onnx"), "-i", input_of(kind)});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(answered(kind, outcome.json()), expected(kind));
  }
}

TEST(ValueKinds, AreReadyAndGoInAndOutOfAServer) {
  const Program gpux;
  std::vector<std::string> served;
  for (const Kind& kind : kinds()) {
    const std::string source = kind.model + "=" + model(kind.model + ".onnx");
    if (std::find(served.begin(), served.end(), source) == served.end()) served.push_back(source);
  }
  served.push_back("sparse=" + model("pass_through_sparse.onnx"));
  const Serving server(gpux, served);
  const Answered ready = server.ask(get("/health/ready"));
  EXPECT_EQ(ready.status, 200) << ready.body;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.model + " " + kind.given);
    EXPECT_EQ(server.ask(get("/v2/models/" + kind.model + "/ready")).status, 200);
    const Answered answer = server.ask(post("/models/" + kind.model + "/predict", input_of(kind)));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answered(kind, Json::parse(answer.body)), expected(kind));
  }
}

TEST(ValueKinds, ThatCannotBeReadAreRefused) {
  const Program gpux;
  const std::pair<Kind, const char*> cases[] = {
      {{"pass_through_sparse", "[[1, 2], [3, 4]]"}, "has no JSON form"},
      {{"pass_through_map_string_float32", R"({"a": [1, 2]})"}, "2 elements, not 1"},
      {{"pass_through_map_string_float32", R"({"a": "b"})"}, "is not a float32"},
      {{"pass_through_map_int64_float32", R"({"a": 1})"}, "key a is not an int64"},
      {{"pass_through_sequence", "5"}, "found where '[' was expected"},
  };
  for (const auto& [kind, words] : cases) {
    const Outcome outcome = gpux.run({"run", model(kind.model + ".onnx"), "-i", input_of(kind)});
    EXPECT_EQ(outcome.code, 6) << kind.model << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
}

TEST(ValueKinds, OfWhichInputsAreMadeUpAreVerifiedAndMeasured) {
  const Program gpux;
  for (const char* name : {"sequence_input.onnx", "map_input.onnx", "pass_through_sequence_map_string.onnx"}) {
    const Outcome verified = gpux.run({"verify", model(name)});
    EXPECT_EQ(verified.code, 0) << name << verified.err;
    const Outcome measured = gpux.run({"bench", model(name), "--runs", "3", "--warmup", "1"});
    EXPECT_EQ(measured.code, 0) << name << measured.err;
  }
  EXPECT_EQ(gpux.run({"verify", model("sequence_input.onnx"), "--dim", "n=7"}).code, 0);
}

std::string bytes_of(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

// The output x is the input x, whose memory is the request's body.
TEST(ValueKinds, AnInputThatIsAnOutputIsAnsweredWithItsOwnValues) {
  const Program gpux;
  const std::string file = model("pass_through.onnx");
  const Outcome list = gpux.run({"run", file, "-i", R"([{"x": [[1, 2, 3]]}, {"x": [[4, 5, 6]]}])"});
  EXPECT_EQ(list.json(), Json::parse(R"([{"x": [[1, 2, 3]], "y": [[2, 3, 4]]}, {"x": [[4, 5, 6]], "y": [[5, 6, 7]]}])"))
      << list.err;

  const Serving server(gpux, {"echo=" + file});
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 12; ++thread) {
      threads.emplace_back([&, thread] {
        RawClient client(server.port());
        for (int i = 0; i < 40; ++i) {
          const auto first = static_cast<float>(thread * 1000 + i);
          const std::string header = R"({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters":
              {"binary_data_size": 12}}], "outputs": [{"name": "x", "parameters": {"binary_data": true}}]})";
          const std::string data = bytes_of({first, first + 0.25F, first + 0.5F});
          const Answered answer =
              client.ask(post("/v2/models/echo/infer", header + data,
                              fmt::format("Inference-Header-Content-Length: {}\r\n", header.size())));
          if (answer.status != 200 || !answer.body.ends_with(data)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace gpux::test
