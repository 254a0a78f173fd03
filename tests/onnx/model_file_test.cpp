#include "onnx/model_file.h"

#include <gpux/error.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/counted_work.h"
#include "base/files.h"
#include "onnx/model_writer.h"

namespace gpux::onnx {
namespace {

namespace fs = std::filesystem;
using onnx_test::MessageWriter;
using onnx_test::ModelWriter;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

fs::path model_path(const std::string& name) {
  return fs::path(GPUX_SOURCE_DIR) / "tests/models" / (name + ".onnx");
}

std::string describe(const std::vector<SignatureEntry>& entries) {
  std::string text;
  for (const SignatureEntry& entry : entries) {
    if (!text.empty()) text += "; ";
    text += entry.name + (entry.required ? " " : "? ") + to_string(entry.type);
  }
  return text;
}

Error failure_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was thrown"};
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "gpux-onnx-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }

  ~Folder() { fs::remove_all(path_); }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

struct SignatureCase {
  std::string model, inputs, outputs;
};

void PrintTo(const SignatureCase& test, std::ostream* stream) {
  *stream << test.model;
}

class Signatures : public testing::TestWithParam<SignatureCase> {};

TEST_P(Signatures, AreReadAsDeclared) {
  const ModelInfo info = inspect(model_path(GetParam().model));
  EXPECT_EQ(describe(info.signature.inputs), GetParam().inputs);
  EXPECT_EQ(describe(info.signature.outputs), GetParam().outputs);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Signatures,
    testing::Values(SignatureCase{"add", "x float32[batch, 3]", "y float32[batch, 3]"},
                    SignatureCase{"identity_float4e2m1", "x float4e2m1[n]", "x float4e2m1[n]"},
                    SignatureCase{"identity_uint2", "x uint2[n]", "y uint2[n]"},
                    SignatureCase{"identity_string", "x string[n]", "y string[n]"},
                    SignatureCase{"identity_bool", "x bool[n]", "y bool[n]"},
                    SignatureCase{"identity_complex64", "x complex64[n]", "y complex64[n]"},
                    SignatureCase{"matmul_chain", "x float32[1, 16]", "y float32[1, 16]"},
                    SignatureCase{"zipmap_string", "x float32[batch, 3]", "y sequence(map(string, float32[]))"},
                    SignatureCase{"map_input", "x map(string, float32[])", "y float32[1, 3]"},
                    SignatureCase{"sequence_output", "a float32[n]; b float32[n]", "y sequence(float32[n])"},
                    SignatureCase{"optional_input", "x? optional(float32[n])", "y float32[m]"},
                    SignatureCase{"optional_output", "x float32[n]", "y optional(float32[n])"},
                    SignatureCase{"scale_default", "x float32[n]; scale? float32[1]", "y float32[n]"},
                    SignatureCase{"scale_ir3", "x float32[n]", "y float32[n]"},
                    SignatureCase{"dynamic_unnamed", "x float32[?, ?]", "y float32[?, ?]"},
                    SignatureCase{"unknown_rank", "x float32[…]", "y float32[…]"},
                    SignatureCase{"scalar", "x float32[]", "y float32[]"},
                    SignatureCase{"gather", "index int64[n]", "y float32[n]"},
                    SignatureCase{"slow", "x float32[16, 16]; iterations int64[]", "y float32[16, 16]"},
                    SignatureCase{"opset_too_new", "x float32[n]", "y float32[n]"}),
    [](const auto& test) { return test.param.model; });

TEST(Inspect, TellsWhatStandsInTheFile) {
  const ModelInfo info = inspect(model_path("add"));
  EXPECT_EQ(info.name, "add");
  EXPECT_EQ(info.version, "1.0.0");
  EXPECT_EQ(info.size_bytes, fs::file_size(model_path("add")));
  EXPECT_EQ(info.ir_version, 10);
  EXPECT_THAT(info.opsets, ElementsAre(Pair("", 21)));
  EXPECT_EQ(info.producer_name, "gpux-tests");
  EXPECT_EQ(info.producer_version, "1");
  EXPECT_EQ(info.graph_name, "add");
  EXPECT_EQ(info.description, "adds 1, 2, 3");
  EXPECT_EQ(info.signature.inputs.at(0).description, "three numbers");
  EXPECT_THAT(info.metadata, ElementsAre(Pair("author", "gpux"), Pair("licence", "Apache-2.0")));
  EXPECT_EQ(info.parameter_count, 3U);
  EXPECT_EQ(info.parameter_bytes, 12U);
  EXPECT_THAT(info.parameter_types, ElementsAre(Pair("float32", 3U)));
}

struct OperatorCase {
  std::string model;
  std::map<std::string, std::uint64_t> operators;
};

void PrintTo(const OperatorCase& test, std::ostream* stream) {
  *stream << test.model;
}

class Operators : public testing::TestWithParam<OperatorCase> {};

TEST_P(Operators, AreCounted) {
  const ModelInfo info = inspect(model_path(GetParam().model));
  std::uint64_t nodes = 0;
  for (const auto& [name, count] : GetParam().operators) nodes += count;
  EXPECT_EQ(info.operators, GetParam().operators);
  EXPECT_EQ(info.node_count, nodes);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Operators,
    testing::Values(OperatorCase{"matmul_chain", {{"MatMul", 4}}}, OperatorCase{"identity_float8e8m0", {}},
                    OperatorCase{"branch", {{"If", 1}, {"Mul", 1}, {"Div", 1}}},
                    OperatorCase{"slow", {{"Loop", 1}, {"Identity", 1}, {"MatMul", 1}, {"Tanh", 1}}},
                    OperatorCase{"local_function", {{"gpux.test::MulAdd", 1}, {"Mul", 1}, {"Add", 1}}},
                    OperatorCase{"zipmap_int64", {{"ai.onnx.ml::ZipMap", 1}}}),
    [](const auto& test) { return test.param.model; });

TEST(Parameters, AreInitializersOnly) {
  // Its fallback is a Constant node.
  EXPECT_EQ(inspect(model_path("optional_input")).parameter_count, 0U);
}

TEST(Parameters, CountInitializersOfEveryKind) {
  const std::string values = onnx_test::raw_tensor("sparse", ElementType::float32, {2}, std::string(8, '\0'));
  const std::string indices = onnx_test::raw_tensor("", ElementType::int64, {2}, std::string(16, '\0'));
  const std::string packed = onnx_test::raw_tensor("packed", ElementType::int4, {5}, std::string(3, '\0'));
  const std::string inner = MessageWriter().bytes(schema::graph::initializer, packed).str();
  ModelWriter model;
  model.add_input("c", ElementType::boolean, {})
      .add_output("y", ElementType::float32, {"n"})
      .add_node("If", {"c"}, {"y"}, {onnx_test::graph_attribute("then_branch", inner)})
      .add_initializer("half", ElementType::float16, {2, 3}, std::string(12, '\0'))
      .add_to_graph(schema::graph::initializer, MessageWriter()
                                                    .number(schema::tensor::dims, 2)
                                                    .number(schema::tensor::data_type, 8)
                                                    .bytes(schema::tensor::string_data, "abc")
                                                    .bytes(schema::tensor::string_data, "")
                                                    .bytes(schema::tensor::name, "words")
                                                    .str())
      .add_to_graph(schema::graph::sparse_initializer, MessageWriter()
                                                           .bytes(schema::sparse_tensor::values, values)
                                                           .bytes(schema::sparse_tensor::indices, indices)
                                                           .number(schema::sparse_tensor::dims, 1000)
                                                           .str());
  const ModelInfo info = inspect(model.bytes(), "memory.onnx");
  EXPECT_EQ(info.parameter_count, 6U + 2U + 2U + 5U);
  EXPECT_EQ(info.parameter_bytes, 12U + 3U + 8U + 3U);
  EXPECT_THAT(info.parameter_types,
              UnorderedElementsAre(Pair("float16", 6U), Pair("string", 2U), Pair("float32", 2U), Pair("int4", 5U)));
}

TEST(Inspect, DoesNotReadTheWeights) {
  // 6 GB that exist as a hole only: longer than 32 bits count, and reading them would take seconds.
  const Folder folder;
  constexpr std::int64_t weights = std::int64_t{3} << 30;
  MessageWriter tensor;
  tensor.number(schema::tensor::dims, weights)
      .number(schema::tensor::data_type, static_cast<int>(ElementType::float16))
      .bytes(schema::tensor::name, "w")
      .lying_bytes(schema::tensor::raw_data, 2 * weights);
  const std::uint64_t tensor_bytes = tensor.str().size() + 2 * weights;
  MessageWriter graph;
  graph.bytes(schema::graph::output, onnx_test::value_info("y", onnx_test::tensor_type(ElementType::float16, {"n"})))
      .bytes(schema::graph::node, onnx_test::node("Identity", {"w"}, {"y"}))
      .lying_bytes(schema::graph::initializer, tensor_bytes, tensor.str());
  MessageWriter model;
  model.number(schema::model::ir_version, 10)
      .bytes(schema::model::opset_import, MessageWriter().number(schema::opset::version, 21).str())
      .lying_bytes(schema::model::graph, graph.str().size() + 2 * weights, graph.str());
  const fs::path path = folder / "big.onnx";
  write_file_atomically(path, model.str());
  fs::resize_file(path, model.str().size() + 2 * weights);

  const test::CountedWork before = test::work_of(RUSAGE_SELF);
  const ModelInfo info = inspect(path);
  const test::CountedWork done = test::work_of(RUSAGE_SELF) - before;
  EXPECT_LT(done.read_bytes, 1U << 20);
  EXPECT_LT(done.touched_pages, 1000U);
  EXPECT_EQ(info.parameter_count, static_cast<std::uint64_t>(weights));
  EXPECT_EQ(info.parameter_bytes, 2 * static_cast<std::uint64_t>(weights));
  EXPECT_EQ(info.size_bytes, model.str().size() + 2 * weights);
}

TEST(ExternalData, IsListedWithSizesAndPresence) {
  const ModelInfo whole = inspect(model_path("external_data"));
  ASSERT_EQ(whole.external_files.size(), 2U);
  EXPECT_EQ(whole.external_files[0].location, "external_weight.bin");
  EXPECT_EQ(whole.external_files[0].bytes, 88U);
  EXPECT_TRUE(whole.external_files[0].present);
  EXPECT_EQ(whole.external_files[1].location, "external_bias.bin");
  EXPECT_EQ(whole.external_files[1].bytes, 8U);
  EXPECT_EQ(whole.parameter_count, 8U);

  const ModelInfo partial = inspect(model_path("external_missing"));
  ASSERT_EQ(partial.external_files.size(), 2U);
  EXPECT_TRUE(partial.external_files[0].present);
  EXPECT_FALSE(partial.external_files[1].present);
}

std::string model_with_external(const std::vector<std::pair<std::string, std::string>>& entries) {
  return ModelWriter()
      .add_output("y", ElementType::float32, {2})
      .add_node("Identity", {"w"}, {"y"})
      .add_to_graph(schema::graph::initializer, onnx_test::external_tensor("w", ElementType::float32, {2}, entries))
      .bytes();
}

TEST(ExternalData, TooShortCountsAsAbsent) {
  const Folder folder;
  write_file_atomically(folder / "w.bin", std::string_view("1234567"));
  write_file_atomically(folder / "m.onnx", model_with_external({{"location", "w.bin"}}));
  const ModelInfo info = inspect(folder / "m.onnx");
  ASSERT_EQ(info.external_files.size(), 1U);
  EXPECT_EQ(info.external_files[0].bytes, 8U);
  EXPECT_FALSE(info.external_files[0].present);
}

TEST(ExternalData, OutsideTheFolderIsRefused) {
  const Folder outside;
  const Folder folder;
  write_file_atomically(outside / "secret.bin", std::string_view("12345678"));
  fs::create_symlink(outside / "secret.bin", folder / "link.bin");
  fs::create_directory_symlink(outside / "", folder / "linked");
  fs::create_symlink("circle", folder / "circle");
  const std::vector<std::pair<std::string, std::string>> cases{{"/etc/passwd", "absolute"},
                                                               {"../secret.bin", "outside"},
                                                               {"a/../../secret.bin", "outside"},
                                                               {"link.bin", "outside"},
                                                               {"linked/secret.bin", "outside"},
                                                               {"circle", "outside"},
                                                               {"", "names no file"},
                                                               {std::string("a\0b", 3), "no file name"},
                                                               {"\xff", "no file name"},
                                                               {"*/_ORT_MEM_ADDR_/*", "address in memory"}};
  for (const auto& [location, reason] : cases) {
    write_file_atomically(folder / "m.onnx", model_with_external({{"location", location}}));
    const Error error = failure_of([&] { inspect(folder / "m.onnx"); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << location;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("tensor 'w'"), HasSubstr(reason))) << location;
  }
}

TEST(ExternalData, OfConstantsAndSubgraphsIsHeldToTheSameRule) {
  const std::string tensor =
      onnx_test::external_tensor("hidden", ElementType::float32, {2}, {{"location", "../outside.bin"}});
  const std::string value =
      MessageWriter().bytes(schema::attribute::name, "value").bytes(schema::attribute::t, tensor).str();
  const std::string inner = MessageWriter().bytes(schema::graph::initializer, tensor).str();
  for (const std::string& attribute : {value, onnx_test::graph_attribute("body", inner)}) {
    const std::string bytes =
        ModelWriter().add_output("y", ElementType::float32, {2}).add_node("Loop", {}, {"y"}, {attribute}).bytes();
    const Error error = failure_of([&] { inspect(bytes, "m.onnx"); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr("tensor 'hidden' has external data at '../outside.bin'"));
  }
}

TEST(ExternalData, MayBeLinkedLikeADownloadCacheDoes) {
  const Folder cache;
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots/1");
  write_file_atomically(cache / "blobs/a1", model_with_external({{"location", "model.onnx_data"}}));
  write_file_atomically(cache / "blobs/b2", std::string_view("12345678"));
  fs::create_symlink("../../blobs/a1", cache / "snapshots/1/model.onnx");
  fs::create_symlink("../../blobs/b2", cache / "snapshots/1/model.onnx_data");
  const ModelInfo info = inspect(cache / "snapshots/1/model.onnx");
  ASSERT_EQ(info.external_files.size(), 1U);
  EXPECT_TRUE(info.external_files[0].present);
}

TEST(Inspect, FailuresOfTheFileItselfKeepTheirCode) {
  const Folder folder;
  EXPECT_EQ(failure_of([&] { inspect(folder / "none.onnx"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(failure_of([&] { inspect(folder / ""); }).code(), ErrorCode::invalid_model);
}

}  // namespace
}  // namespace gpux::onnx
