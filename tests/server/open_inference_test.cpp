#include <cstring>

#include <gmock/gmock.h>

#include "gpux/error.h"
#include "server/protocols/open_inference/messages.h"

namespace gpux::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SignatureEntry entry(const char* name, ElementType type, std::vector<Dimension> dimensions) {
  return {.name = name,
          .type = {.kind = ValueKind::tensor, .element = type, .dimensions = std::move(dimensions), .inner = {}},
          .required = true,
          .description = {}};
}

Dimension free_dimension() {
  return {.size = std::nullopt, .name = "batch"};
}

Dimension fixed(std::int64_t size) {
  return {.size = size, .name = {}};
}

const Signature& signature() {
  static const Signature made{.inputs = {entry("x", ElementType::float32, {free_dimension(), fixed(2)}),
                                         entry("t", ElementType::string, {free_dimension()})},
                              .outputs = {entry("y", ElementType::float32, {free_dimension(), fixed(2)})}};
  return made;
}

Signature single(ElementType type) {
  return {.inputs = {entry("x", type, {free_dimension(), fixed(2)})},
          .outputs = {entry("y", type, {free_dimension(), fixed(2)})}};
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

InferCall read(const std::string& json, const Signature& model = signature()) {
  return read_infer_call(http::make_body(json), std::nullopt, model);
}

InferCall read_binary(const std::string& json, const std::string& tensors, const Signature& model = signature()) {
  return read_infer_call(http::make_body(json + tensors, json.size()), json.size(), model);
}

const Tensor& tensor(const InferCall& call, const char* name) {
  return *find(call.run.inputs, name)->tensor();
}

TEST(OpenInference, ReadsFlatAndNestedData) {
  for (const char* data : {"[1, 2, 3, 4]", "[[1, 2], [3, 4]]", " [ [1,2],\n[3,4]]"}) {
    SCOPED_TRACE(data);
    const InferCall call = read(std::string(R"({"id": "a7", "inputs": [{"name": "x", "shape": [2, 2],
        "datatype": "FP32", "data": )") +
                                data + R"(}, {"name": "t", "datatype": "BYTES", "shape": [2], "data": ["a", "é"]}],
        "outputs": [{"name": "y", "parameters": {"binary_data": true}}]})");
    EXPECT_EQ(call.id, "a7");
    EXPECT_THAT(tensor(call, "x").as<float>(), ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(tensor(call, "x").shape(), (Shape{2, 2}));
    EXPECT_THAT(tensor(call, "t").strings(), ElementsAre("a", "é"));
    ASSERT_EQ(call.outputs.size(), 1U);
    EXPECT_TRUE(call.outputs[0].binary);
  }
}

TEST(OpenInference, TakesTheNameOfTheModelThatKServesClientRepeats) {
  const InferCall call = read(R"({"id": "a", "model_name": "m", "inputs": [{"name": "x", "shape": [1, 2],
      "datatype": "FP32", "data": [1, 2]}, {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["a"]}]})");
  EXPECT_THAT(tensor(call, "x").as<float>(), ElementsAre(1, 2));
}

TEST(OpenInference, ReadsParameters) {
  const InferCall call = read(R"({"parameters": {"priority": 3, "timeout": 1500, "binary_data_output": true,
      "something_of_ones_own": [1]}, "inputs": [], "outputs": [{"name": "y", "parameters": {"classification": 5}}]})");
  EXPECT_EQ(call.run.priority, 3);
  EXPECT_EQ(call.timeout, std::chrono::microseconds(1500));
  EXPECT_TRUE(call.binary_outputs);
  EXPECT_TRUE(call.outputs[0].binary);
  EXPECT_EQ(call.outputs[0].classes, 5U);
}

TEST(OpenInference, BorrowsAlignedBinaryTensorsFromTheBody) {
  const std::string json = R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
      "parameters": {"binary_data_size": 8}}]})";
  const std::string text = json + raw<float>({1.5F, -2});
  const http::Piece body = http::make_body(text, json.size());
  const InferCall call = read_infer_call(body, json.size(), signature());
  EXPECT_THAT(tensor(call, "x").as<float>(), ElementsAre(1.5F, -2));
  EXPECT_EQ(static_cast<const void*>(tensor(call, "x").bytes().data()), body.bytes.data() + json.size());
}

TEST(OpenInference, CopiesWhatDoesNotLieAligned) {
  const std::string strings("\x01\0\0\0a\0\0\0\0", 9);
  const InferCall call = read_binary(R"({"inputs": [
      {"name": "t", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 9}},
      {"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}]})",
                                     strings + raw<float>({3, 4}));
  EXPECT_THAT(tensor(call, "t").strings(), ElementsAre("a", ""));
  EXPECT_THAT(tensor(call, "x").as<float>(), ElementsAre(3, 4));
}

TEST(OpenInference, TakesARawBodyForTheOnlyInput) {
  const Signature model = single(ElementType::int16);
  const InferCall call = read_infer_call(http::make_body(raw<std::int16_t>({7, -8})), 0, model);
  EXPECT_EQ(tensor(call, "x").shape(), (Shape{1, 2}));
  EXPECT_THAT(tensor(call, "x").as<std::int16_t>(), ElementsAre(7, -8));
  EXPECT_TRUE(call.binary_outputs);
  EXPECT_THROW((void)read_infer_call(http::make_body("abc"), 0, model), Error);
  EXPECT_THROW((void)read_infer_call(http::make_body("abcd"), 0, signature()), Error);
}

struct Bad {
  const char* json;
  const char* message;
};

std::string many(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(OpenInference, RefusesInOneLineThatNamesThePlace) {
  const std::string x = R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", )";
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "JSON"},
      {"[]", "an object"},
      {R"({"outputs": []})", "no inputs"},
      {R"({"inputs": [], "inputs": []})", "twice"},
      {R"({"inputs": [], "wish": 1})", "no member \"wish\""},
      {R"({"id": 7, "inputs": []})", "id is not a string"},
      {R"({"inputs": [{"shape": [1], "datatype": "FP32", "data": [1]}]})", "no name"},
      {R"({"inputs": [{"name": "q", "shape": [1], "datatype": "FP32", "data": [1]}]})", "no input \"q\"; inputs: x, t"},
      {R"({"inputs": [{"name": "x", "datatype": "FP32", "data": [1]}]})", "no shape"},
      {R"({"inputs": [{"name": "x", "shape": [-1], "datatype": "FP32", "data": [1]}]})", "-1"},
      {R"({"inputs": [{"name": "x", "shape": [1.5], "datatype": "FP32", "data": [1]}]})", "1.5"},
      {R"({"inputs": [{"name": "x", "shape": [4611686018427387904, 4], "datatype": "FP32", "data": [1]}]})", "shape"},
      {R"({"inputs": [{"name": "x", "shape": [1000000000000], "datatype": "FP32", "data": [1]}]})", "1000000000000"},
      {R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FLOAT", "data": [1]}]})", "no datatype \"FLOAT\""},
      {x + R"("data": [1]}]})", "2"},
      {x + R"("data": [1, 2, 3]}]})", "3"},
      {x + R"("data": [1, "b"]}]})", "[1]"},
      {x + R"("data": [1, 1e400]}]})", "does not fit"},
      {x + R"("data": [[1, 2], [3]]}]})", "input 'x'"},
      {x + R"("shape": [2]}]})", "twice"},
      {x + R"("data": [1, 2]}, {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})", "given twice"},
      {x + R"("parameters": {"binary_data_size": 8}}]})", "0 bytes are left"},
      {x + R"("parameters": {"binary_data_size": -8}}]})", "binary_data_size is \"-8\""},
      {x + R"("parameters": {"binary_data_size": 0}}]})", "0 bytes for FP32 of shape [1, 2]"},
      {x + R"("parameters": {"binary_data_size": 0}, "data": [1, 2]}]})", "both data and"},
      {x + R"("parameters": {"shared_memory_region": "r"}}]})", "shared memory"},
      {x + R"("parameters": 1}]})", "not an object"},
      {x + R"("parameters": {"binary_data_size": 08}}]})", "parameters is not JSON"},
      {x + R"("parameters": {"other": 1.}}]})", "parameters is not JSON"},
      {x + R"("parameters": {"other": 1, "other": 1}}]})", "twice"},
      {x + R"("parameters": {"binary_data_size": "eight"}}]})", "eight"},
      {x + R"("parameters": {"binary_data_size": "a)" + many("\u00e9", 100) + R"("}}]})", "not a whole number"},
      {R"({"id": ")" + many("a", 70'000) + R"(", "inputs": []})", "longer than 64 KiB"},
      {x + R"("data": [1, 2]}], "outputs": [{"name": "z"}]})", "no output \"z\"; outputs: y"},
      {x + R"("data": [1, 2]}], "outputs": [{"name": "y"}, {"name": "y"}]})", "asked for twice"},
      {x + R"("data": [1, 2]}], "parameters": {"sequence_id": 1}})", "sequences"},
      {x + R"("data": [1, 2]}], "parameters": {"binary_data_output": 1}})", "neither true nor false"},
  };
  for (const auto& [json, message] : cases) {
    SCOPED_TRACE(json);
    try {
      (void)read(json);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.message(), HasSubstr(message));
      EXPECT_EQ(error.message().find('\n'), std::string::npos);
    }
  }
}

TEST(OpenInference, RefusesBinarySizesThatLie) {
  const std::string head = R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters":
      {"binary_data_size": 8}}]})";
  EXPECT_THROW((void)read_binary(head, raw<float>({1})), Error);
  EXPECT_THROW((void)read_binary(head, raw<float>({1, 2, 3})), Error);
  EXPECT_THROW((void)read_infer_call(http::make_body(head), head.size() + 1, signature()), Error);
  const std::string bytes = R"({"inputs": [{"name": "t", "shape": [1], "datatype": "BYTES", "parameters":
      {"binary_data_size": 5}}]})";
  EXPECT_THROW((void)read_binary(bytes, std::string("\x02\0\0\0a", 5)), Error);
  EXPECT_THROW((void)read_binary(bytes, std::string("\0\0\0\0a", 5)), Error);
  const std::string flags = R"({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "BOOL", "parameters":
      {"binary_data_size": 2}}]})";
  EXPECT_THROW((void)read_binary(flags, std::string("\x01\x02", 2), single(ElementType::boolean)), Error);
}

// What is written in a datatype is read back the same, as JSON and as bytes.
TEST(OpenInference, EveryDatatypeGoesRound) {
  for (const auto& [type, values] :
       std::vector<std::pair<ElementType, std::string>>{{ElementType::boolean, std::string("\0\x01", 2)},
                                                        {ElementType::uint8, raw<std::uint8_t>({0, 255})},
                                                        {ElementType::uint16, raw<std::uint16_t>({1, 65535})},
                                                        {ElementType::uint32, raw<std::uint32_t>({1, 4294967295U})},
                                                        {ElementType::uint64, raw<std::uint64_t>({1, UINT64_MAX})},
                                                        {ElementType::int8, raw<std::int8_t>({-128, 127})},
                                                        {ElementType::int16, raw<std::int16_t>({-32768, 1})},
                                                        {ElementType::int32, raw<std::int32_t>({INT32_MIN, 1})},
                                                        {ElementType::int64, raw<std::int64_t>({INT64_MIN, INT64_MAX})},
                                                        {ElementType::float16, raw<std::uint16_t>({0x3c00, 0x0001})},
                                                        {ElementType::bfloat16, raw<std::uint16_t>({0x3f80, 0x0001})},
                                                        {ElementType::float32, raw<float>({0.1F, 1e-45F})},
                                                        {ElementType::float64, raw<double>({0.1, 5e-324})}}) {
    SCOPED_TRACE(to_string(type));
    const std::string name(datatype_of(type));
    ASSERT_EQ(type_of_datatype(name), type);
    Tensor tensor_value = Tensor::allocate(type, {1, 2});
    std::memcpy(tensor_value.mutable_bytes().data(), values.data(), values.size());
    const NamedValues outputs{{"x", tensor_value}};
    for (const bool binary : {false, true}) {
      InferCall call;
      call.binary_outputs = binary;
      const http::Response response = write_infer_response(
          {.model_name = "m", .model_version = "1", .call = call, .outputs = outputs, .declared = {}});
      std::string text = response.text;
      // The answer's tensor as a request's.
      const std::size_t begin = text.find('[');
      text = R"({"inputs":)" + text.substr(begin);
      std::string tail;
      for (const http::Piece& piece : response.pieces) tail += piece.text();
      const InferCall again = binary ? read_binary(text, tail, single(type)) : read(text, single(type));
      EXPECT_EQ(std::memcmp(tensor(again, "x").bytes().data(), values.data(), values.size()), 0) << response.text;
      EXPECT_EQ(tensor(again, "x").shape(), (Shape{1, 2}));
      EXPECT_EQ(response.headers["Content-Type"], binary ? "application/octet-stream" : "application/json");
    }
  }
}

TEST(OpenInference, Classifies) {
  InferCall call;
  call.id = "c";
  call.outputs = {{"y", false, 2}};
  const NamedValues outputs{{"y", Tensor::of<float>({2, 3}, std::vector<float>{0.5F, 2, 1, -1, -3, -2})}};
  DeclaredValue declared;
  declared.name = "y";
  declared.labels = {"cat", "dog", "eel"};
  const http::Response response = write_infer_response(
      {.model_name = "m", .model_version = "1", .call = call, .outputs = outputs, .declared = std::span(&declared, 1)});
  EXPECT_EQ(response.text,
            R"({"model_name":"m","model_version":"1","id":"c","outputs":[{"name":"y","datatype":"BYTES","shape":[2,2],)"
            R"("data":["2.000000:1:dog","1.000000:2:eel","-1.000000:0:cat","-2.000000:2:eel"]}]})");
}

TEST(OpenInference, DescribesValues) {
  std::string text;
  append_metadata_tensor(text, signature().inputs[0]);
  EXPECT_EQ(text, R"({"name":"x","datatype":"FP32","shape":[-1,2]})");
}

}  // namespace
}  // namespace gpux::server
