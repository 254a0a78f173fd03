#include <gpux/error.h>

#include <algorithm>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "onnx/model_file.h"
#include "onnx/model_writer.h"

namespace gpux::onnx {
namespace {

using onnx_test::MessageWriter;
using onnx_test::ModelWriter;
using testing::HasSubstr;

const std::string& bytes_of(const std::string& model) {
  static std::map<std::string, std::string> files;
  std::string& bytes = files[model];
  if (bytes.empty()) bytes = read_file(std::string(GPUX_SOURCE_DIR) + "/tests/models/" + model + ".onnx");
  return bytes;
}

/// The message where the bytes were refused as they should be, "" where they were taken.
std::string refusal_of(std::string_view bytes) {
  try {
    inspect(bytes, "hostile.onnx");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << error.message();
    EXPECT_EQ(std::ranges::count_if(error.message(), [](unsigned char c) { return c < 0x20; }), 0) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("'hostile.onnx'"));
    return error.message();
  }
}

ModelWriter sound_model() {
  ModelWriter model;
  model.add_input("x", ElementType::float32, {"n"}).add_output("y", ElementType::float32, {"n"});
  model.add_node("Relu", {"x"}, {"y"});
  return model;
}

/// `depth` messages, each holding the next as the field that is its turn, made back to front in linear time.
std::string nested(const std::vector<std::uint32_t>& fields, std::size_t depth) {
  std::string reversed;
  for (std::size_t i = depth; i-- > 0;) {
    std::string head;
    protozero::add_varint_to_buffer(&head, (std::uint64_t{fields[i % fields.size()]} << 3) | 2);
    protozero::add_varint_to_buffer(&head, reversed.size());
    reversed.append(head.rbegin(), head.rend());
  }
  std::ranges::reverse(reversed);
  return reversed;
}

/// A node with `depth` subgraphs, each in a node of the one before.
std::string nested_nodes(std::size_t depth) {
  return nested({schema::node::attribute, schema::attribute::g, schema::graph::node}, 3 * depth);
}

std::string nested_types(std::size_t depth) {
  return nested({schema::type::sequence, schema::tensor_type::elem_type}, 2 * depth);
}

std::string repeated(std::uint32_t field, int count) {
  MessageWriter message;
  for (int i = 0; i < count; ++i) message.bytes(field, "");
  return message.str();
}

std::string model_with_many_inputs(int count) {
  ModelWriter model;
  for (int i = 0; i < count; ++i) model.add_input(std::to_string(i), ElementType::float32, {});
  return model.bytes();
}

struct HostileCase {
  std::string name, bytes, reason;
};

std::vector<HostileCase> hostile_cases() {
  const auto with_graph = [](std::uint32_t field, const std::string& message) {
    return sound_model().add_to_graph(field, message).bytes();
  };
  const auto with_tensor = [&](const std::string& tensor) { return with_graph(schema::graph::initializer, tensor); };
  const auto tensor_of = [](const Shape& shape, std::int64_t type) {
    MessageWriter tensor;
    for (const std::int64_t size : shape) tensor.number(schema::tensor::dims, size);
    return tensor.number(schema::tensor::data_type, type).bytes(schema::tensor::name, "w");
  };
  const std::string opset = MessageWriter().number(schema::opset::version, 21).str();
  const std::string float_type = onnx_test::tensor_type(ElementType::float32, {"n"});
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  return {
      {"empty", "", "is empty"},
      {"html", "<!DOCTYPE html><html>404</html>", "an HTML page"},
      {"text", "Entry not found\n", "plain text"},
      {"json", "{\"error\": \"denied\"}", "JSON"},
      {"zip", std::string("PK\x03\x04") + std::string(60, '\0'), "zip archive"},
      {"git_lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"},
      {"ort_format", std::string("\x18\0\0\0ORTM", 8) + std::string(60, '\0'), "ORT format"},
      {"safetensors", std::string("\x40\0\0\0\0\0\0\0{\"w\"", 12) + std::string(60, ' '), "safetensors"},
      {"zeros", std::string(100, '\0'), "number 0"},
      {"no_graph", MessageWriter().number(1, 10).bytes(schema::model::opset_import, opset).str(), "no graph"},
      {"no_opset", MessageWriter().number(1, 10).bytes(schema::model::graph, "").str(), "no opset_import"},
      {"no_ir_version", MessageWriter().bytes(schema::model::graph, "").str(), "no IR version"},
      {"two_graphs", sound_model().add_to_model(schema::model::graph, "").bytes(), "two graphs"},
      {"no_output", ModelWriter().bytes(), "no output"},
      {"input_without_name", with_graph(schema::graph::input, onnx_test::value_info("", float_type)), "no name"},
      {"input_without_type", with_graph(schema::graph::input, MessageWriter().bytes(1, "z").str()), "has no type"},
      {"input_name_not_utf8", with_graph(schema::graph::input, onnx_test::value_info("\xff", float_type)), "\\xff"},
      {"input_twice", with_graph(schema::graph::input, onnx_test::value_info("x", float_type)), "the name 'x'"},
      {"negative_dimension",
       with_graph(schema::graph::input, onnx_test::value_info("z", onnx_test::tensor_type(ElementType::float32, {-7}))),
       "size -7"},
      {"unknown_element_type",
       with_graph(schema::graph::input,
                  onnx_test::value_info("z", onnx_test::tensor_type(static_cast<ElementType>(99), {}))),
       "element type 99"},
      {"rank_of_thousands",
       with_graph(schema::graph::input,
                  onnx_test::value_info(
                      "z", onnx_test::tensor_type(ElementType::float32, onnx_test::Dimensions(5000, {"n"})))),
       "256 dimensions"},
      {"node_without_operator", with_graph(schema::graph::node, MessageWriter().bytes(3, "lost\n").str()),
       "node 'lost\\x0a' has no operator"},
      {"graph_as_number", MessageWriter().number(1, 10).number(schema::model::graph, 5).str(), "not bytes"},
      {"ir_version_as_bytes", MessageWriter().bytes(1, "10").str(), "not an integer"},
      {"length_beyond_the_end", MessageWriter().number(1, 10).lying_bytes(7, 1000, "abc").str(), "claims 1000 bytes"},
      {"length_of_64_bits", MessageWriter().number(1, 10).lying_bytes(7, ~std::uint64_t{0}, "abc").str(), "claims"},
      {"length_that_wraps_in_32_bits", MessageWriter().number(1, 10).lying_bytes(7, (1ULL << 32) + 3, "abc").str(),
       "claims 4294967299 bytes"},
      {"varint_without_end", std::string("\x08") + std::string(20, '\xff'), "does not end"},
      {"wire_type_group", "\x0b", "wire type 3"},
      {"tensor_with_negative_size", with_tensor(tensor_of({-1}, 1).str()), "negative"},
      {"tensor_of_too_many_elements", with_tensor(tensor_of({huge, huge}, 1).str()), "tensor 'w'"},
      {"tensor_of_too_many_bytes", with_tensor(tensor_of({huge}, 11).str()), "has no size"},
      {"tensor_without_data", with_tensor(tensor_of({5}, 1).str()), "takes 5 values, 0 are there"},
      {"tensor_without_type", with_tensor(tensor_of({0}, 0).str()), "no element type"},
      {"raw_data_too_short", with_tensor(tensor_of({5}, 1).bytes(schema::tensor::raw_data, "abc").str()),
       "float32[5] takes 20 bytes, its raw data has length 3"},
      {"strings_missing", with_tensor(tensor_of({2}, 8).bytes(schema::tensor::string_data, "a").str()),
       "takes 2 values, 1 are there"},
      {"external_length_differs",
       with_tensor(onnx_test::external_tensor("w", ElementType::float32, {2}, {{"location", "w"}, {"length", "9"}})),
       "takes 8 bytes, its external data has length 9"},
      {"external_offset_no_number",
       with_tensor(onnx_test::external_tensor("w", ElementType::float32, {2}, {{"location", "w"}, {"offset", "-1"}})),
       "offset '-1'"},
      {"external_offset_wraps",
       with_tensor(onnx_test::external_tensor("w", ElementType::float32, {2},
                                              {{"location", "w"}, {"offset", "18446744073709551615"}})),
       "which no file has"},
      {"external_strings", with_tensor(onnx_test::external_tensor("w", ElementType::string, {2}, {{"location", "w"}})),
       "strings"},
      {"inputs_by_the_thousand", model_with_many_inputs(16385), "more than 16384 inputs"},
      {"opsets_by_the_thousand", repeated(schema::model::opset_import, 65537), "more than 65536 opset"},
      {"metadata_by_the_thousand", repeated(schema::model::metadata_props, 65537), "more than 65536 metadata"},
      {"graphs_nested_too_deep", with_graph(schema::graph::node, nested_nodes(66)),
       "subgraphs are nested more than 64 deep"},
      {"a_million_graphs_deep", with_graph(schema::graph::node, nested_nodes(1'000'000)),
       "subgraphs are nested more than 64 deep"},
      {"types_nested_too_deep", with_graph(schema::graph::input, onnx_test::value_info("z", nested_types(66))),
       "types are nested more than 64 deep"},
      {"a_million_types_deep", with_graph(schema::graph::input, onnx_test::value_info("z", nested_types(1'000'000))),
       "types are nested more than 64 deep"},
  };
}

// In one test: some of the models are a million messages deep, and take a while to write.
TEST(HostileModels, AreRefusedWithAReason) {
  for (const HostileCase& test : hostile_cases()) {
    SCOPED_TRACE(test.name);
    const std::string refusal = refusal_of(test.bytes);
    EXPECT_NE(refusal, "");
    EXPECT_THAT(refusal, HasSubstr(test.reason));
  }
}

TEST(NestingLimit, AllowsWhatRealModelsHave) {
  std::string graph = MessageWriter().bytes(schema::graph::node, onnx_test::node("Relu", {"x"}, {"y"})).str();
  for (int depth = 0; depth < 20; ++depth) {
    const std::string node = onnx_test::node("If", {}, {}, {onnx_test::graph_attribute("g", graph)});
    graph = MessageWriter().bytes(schema::graph::node, node).str();
  }
  const std::string attribute = onnx_test::graph_attribute("g", graph);
  const ModelInfo info = inspect(sound_model().add_node("If", {}, {}, {attribute}).bytes(), "nested.onnx");
  EXPECT_EQ(info.operators.at("If"), 21U);
  EXPECT_EQ(info.operators.at("Relu"), 2U);
}

class DamagedModels : public testing::TestWithParam<std::string> {};

TEST_P(DamagedModels, CutAnywhereAreReadOrRefused) {
  const std::string& whole = bytes_of(GetParam());
  std::size_t refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of its own, so that a sanitizer sees the first byte behind it.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    refused += refusal_of({cut.data(), cut.size()}).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, whole.size() / 2);
}

TEST_P(DamagedModels, WithFlippedBitsAreReadOrRefused) {
  const std::string& whole = bytes_of(GetParam());
  std::mt19937 random(20);
  std::size_t refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<char> flipped(whole.begin(), whole.end());
    const auto flips = 1 + random() % 8;
    for (std::uint32_t i = 0; i < flips; ++i) {
      flipped[random() % flipped.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    refused += refusal_of({flipped.data(), flipped.size()}).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 200U);
}

INSTANTIATE_TEST_SUITE_P(Models, DamagedModels,
                         testing::Values("branch", "external_data", "local_function", "optional_input", "split",
                                         "zipmap_string"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gpux::onnx
