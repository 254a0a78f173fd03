#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "cpu_runtime.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using testing::HasSubstr;

class Models : public CpuRuntime {};

std::vector<float> floats_of(const Value& value) {
  const auto values = value.tensor()->as<float>();
  return {values.begin(), values.end()};
}

struct Answer {
  const char* model;
  NamedValues inputs;
  Shape shape;
  std::vector<float> values;
  float tolerance = 0;
};

Sequence sequence_of(std::initializer_list<Tensor> tensors) {
  Sequence sequence;
  for (const Tensor& element : tensors) sequence.values.emplace_back(element);
  return sequence;
}

std::vector<Answer> answers() {
  const float infinity = HUGE_VALF;
  const std::vector<float> ones(16, 1);
  std::vector<float> ramp;
  for (int i = 0; i < 16; ++i) ramp.push_back(static_cast<float>(i) / 16);
  const Map animals{Tensor::of_strings({2}, {"dog", "eel"}), floats({2}, {2, 3})};
  const Map column{animals.keys, floats({2, 1}, {2, 3})};  // a value declared as a tensor of one element
  return {
      {"add", {{"x", floats({1, 3}, {1, 2, 3})}}, {1, 3}, {2, 4, 6}},
      {"dynamic_unnamed", {{"x", floats({1, 2}, {1, -2})}}, {1, 2}, {1, 0}},
      {"unknown_rank", {{"x", floats({1, 1, 2}, {1, -2})}}, {1, 1, 2}, {1, 0}},
      {"scalar", {{"x", floats({}, {3})}}, {}, {-3}},
      {"multiply", {{"a", floats({3}, {1, 2, 3})}, {"b", floats({3}, {4, 5, 6})}}, {3}, {4, 10, 18}},
      {"divide",
       {{"a", floats({4}, {1, 0, -1, 1})}, {"b", floats({4}, {0, 0, 0, 4})}},
       {4},
       {infinity, NAN, -infinity, 0.25F}},
      {"gather", {{"index", tensor<std::int64_t>({2}, {0, 2})}}, {2}, {10, 30}},
      {"reshape", {{"x", floats({2}, {1, 2})}, {"shape", tensor<std::int64_t>({2}, {2, 1})}}, {2, 1}, {1, 2}},
      {"external_data", {{"x", floats({1, 3}, {1, 1, 1})}}, {1, 2}, {106, 209}},
      {"scale_default", {{"x", floats({2}, {1, 2})}}, {2}, {2, 4}},
      {"scale_default", {{"x", floats({2}, {1, 2})}, {"scale", floats({1}, {3})}}, {2}, {3, 6}},
      {"scale_ir3", {{"x", floats({2}, {1, 2})}}, {2}, {2, 4}},
      {"branch", {{"x", floats({1}, {3})}, {"double", tensor<bool>({}, {true})}}, {1}, {6}},
      {"branch", {{"x", floats({1}, {3})}, {"double", tensor<bool>({}, {false})}}, {1}, {1.5F}},
      {"local_function", {{"x", floats({2}, {1, 2})}}, {2}, {2, 5}},
      {"map_input", {{"x", animals}}, {1, 3}, {0, 2, 3}},
      {"map_input", {{"x", column}}, {1, 3}, {0, 2, 3}},
      {"sequence_input", {{"x", sequence_of({floats({2}, {1, 2}), floats({1}, {3})})}}, {3}, {1, 2, 3}},
      {"optional_input", {{"x", floats({2}, {7, 8})}}, {2}, {7, 8}},
      {"optional_output", {{"x", floats({2}, {7, 8})}}, {2}, {7, 8}},
      {"slow",
       {{"x", Tensor::allocate(ElementType::float32, {16, 16})}, {"iterations", tensor<std::int64_t>({}, {3})}},
       {16, 16},
       std::vector<float>(256, 0)},
      {"split", {{"x", Tensor::of<float>({1, 1, 4, 4}, ramp)}}, {1, 3}, {0.335294F, 0.334044F, 0.330662F}, 1e-6F},
  };
}

TEST_F(Models, ComputeTheExactExpectedOutputs) {
  for (const Answer& answer : answers()) {
    const Runtime runtime(test_model(answer.model));
    const NamedValues outputs = runtime.infer(answer.inputs);
    ASSERT_EQ(outputs.size(), 1U) << answer.model;
    EXPECT_EQ(outputs[0].second.tensor()->shape(), answer.shape) << answer.model;
    const std::vector<float> got = floats_of(outputs[0].second);
    ASSERT_EQ(got.size(), answer.values.size()) << answer.model;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(answer.values[i]) || std::isinf(answer.values[i]) || answer.tolerance == 0) {
        EXPECT_TRUE(got[i] == answer.values[i] || (std::isnan(got[i]) && std::isnan(answer.values[i])))
            << answer.model << " [" << i << "] is " << got[i] << ", not " << answer.values[i];
      } else {
        EXPECT_NEAR(got[i], answer.values[i], answer.tolerance) << answer.model;
      }
    }
    EXPECT_EQ(runtime.verdict().active, std::vector<std::string>{"cpu"});
    EXPECT_TRUE(runtime.verdict().placement_known);
    EXPECT_FALSE(runtime.verdict().fell_back);
  }
}

TEST_F(Models, ChainOfMatrices) {
  const Runtime runtime(test_model("matmul_chain"));
  const std::vector<float> ones(16, 1);
  const std::vector<float> got = floats_of(runtime.infer(Tensor::of<float>({1, 16}, ones))[0].second);
  EXPECT_NEAR(got[0], 0.29174107F, 1e-5F);
  EXPECT_NEAR(got[1], -0.4631913F, 1e-5F);
}

// Each element type goes in and comes out with the same bytes.
TEST_F(Models, KeepEveryElementType) {
  const ElementType types[] = {ElementType::float32,    ElementType::uint8,          ElementType::int8,
                               ElementType::uint16,     ElementType::int16,          ElementType::int32,
                               ElementType::int64,      ElementType::boolean,        ElementType::float16,
                               ElementType::float64,    ElementType::uint32,         ElementType::uint64,
                               ElementType::bfloat16,   ElementType::float8e4m3fn,   ElementType::float8e4m3fnuz,
                               ElementType::float8e5m2, ElementType::float8e5m2fnuz, ElementType::uint4,
                               ElementType::int4,       ElementType::float4e2m1,     ElementType::float8e8m0};
  for (const ElementType type : types) {
    const std::string name(to_string(type));
    Tensor input = Tensor::allocate(type, {5});
    auto bytes = input.mutable_bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(type == ElementType::boolean ? i % 2 : 17 * i + 3);
    }
    if (bits_of(type) == 4) bytes.back() &= std::byte{0x0f};  // five elements: half of the last byte is nobody's
    const Runtime runtime(test_model("identity_" + name));
    const NamedValues outputs = runtime.infer(input);
    const Tensor& output = *outputs.at(0).second.tensor();
    EXPECT_EQ(output.type(), type);
    EXPECT_EQ(output.shape(), Shape{5}) << name;
    EXPECT_TRUE(std::ranges::equal(output.bytes(), input.bytes())) << name;
  }
}

TEST_F(Models, TakeAndGiveStrings) {
  const Tensor words = Tensor::of_strings({3}, {"ab", "", std::string("ä\0b", 4)});
  const NamedValues same = Runtime(test_model("identity_string")).infer(words);
  EXPECT_EQ(same[0].second.tensor()->strings()[0], "ab");
  EXPECT_EQ(same[0].second.tensor()->strings()[1], "");
  const NamedValues joined = Runtime(test_model("string_concat")).infer(Tensor::of_strings({1}, {"ab"}));
  EXPECT_EQ(joined[0].second.tensor()->strings()[0], "ab!");
}

TEST_F(Models, GiveSequencesMapsAndNothing) {
  const NamedValues pair =
      Runtime(test_model("sequence_output")).infer({{"a", floats({1}, {1})}, {"b", floats({2}, {2, 3})}});
  const Sequence* sequence = pair[0].second.sequence();
  ASSERT_NE(sequence, nullptr);
  ASSERT_EQ(sequence->values.size(), 2U);
  EXPECT_EQ(floats_of(sequence->values[1]), (std::vector<float>{2, 3}));

  const NamedValues zipped = Runtime(test_model("zipmap_int64")).infer(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(zipped[0].second.sequence()->values.size(), 2U);
  const Map* map = zipped[0].second.sequence()->values[1].map();
  ASSERT_NE(map, nullptr);
  std::map<std::int64_t, float> entries;
  for (std::size_t i = 0; i < 3; ++i) entries[map->keys.as<std::int64_t>()[i]] = map->values.as<float>()[i];
  EXPECT_EQ(entries, (std::map<std::int64_t, float>{{10, 4}, {20, 5}, {30, 6}}));

  const NamedValues words = Runtime(test_model("zipmap_string")).infer(floats({1, 3}, {1, 2, 3}));
  const Map* named = words[0].second.sequence()->values[0].map();
  ASSERT_NE(named, nullptr);
  std::map<std::string, float> animals;
  for (std::size_t i = 0; i < 3; ++i) animals[named->keys.strings()[i]] = named->values.as<float>()[i];
  EXPECT_EQ(animals, (std::map<std::string, float>{{"cat", 1}, {"dog", 2}, {"eel", 3}}));

  const NamedValues none = Runtime(test_model("optional_none")).infer(floats({1}, {1}));
  EXPECT_TRUE(none[0].second.is_none());
  const NamedValues filled = Runtime(test_model("optional_input")).infer(NamedValues{{"x", std::monostate{}}});
  EXPECT_EQ(floats_of(filled[0].second), std::vector<float>{-1});
}

TEST_F(Models, ThatCannotBeUsedAreRefusedInOneLine) {
  const std::map<std::string, const char*> refused{
      {"opset_too_new", "opset"},         {"unknown_operator", "NoSuchOperator"}, {"unknown_domain", "Mystery"},
      {"external_missing", "external"},   {"external_outside", "outside.bin"},    {"external_absolute", "/etc/passwd"},
      {"identity_complex64", "complex64"}};
  for (const auto& [name, words] : refused) {
    try {
      const Runtime runtime(test_model(name));
      ADD_FAILURE() << name << " was loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model) << name;
      EXPECT_THAT(error.message(), HasSubstr(words)) << name;
      EXPECT_EQ(error.message().find('\n'), std::string::npos) << name;
      EXPECT_EQ(error.message().find("onnxruntime_src"), std::string::npos) << error.message();
    }
  }
}

// The values are to blame, and the model goes on.
TEST_F(Models, FailOnValuesThatANodeRefuses) {
  struct Case {
    const char* model;
    NamedValues bad, good;
    const char* says;
  };

  const NamedValues index = {{"index", tensor<std::int64_t>({1}, {7})}};
  for (const Case& one :
       {Case{"gather", index, {{"index", tensor<std::int64_t>({1}, {2})}}, "a Gather node: indices element out of"},
        Case{"reshape",
             {{"x", floats({3}, {1, 2, 3})}, {"shape", tensor<std::int64_t>({2}, {2, 2})}},
             {{"x", floats({2}, {1, 2})}, {"shape", tensor<std::int64_t>({2}, {2, 1})}},
             "Reshape node 'fold': "},
        Case{"any",
             {{"x", Tensor::allocate(ElementType::boolean, {0})}},
             {{"x", Tensor::allocate(ElementType::boolean, {1})}},
             "ReduceMax node 'largest': ReduceMax is not defined for empty set"}}) {
    const Runtime runtime(test_model(one.model));
    try {
      (void)runtime.infer(one.bad);
      ADD_FAILURE() << one.model << " took them";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
      EXPECT_THAT(error.message(), testing::StartsWith(one.says));
    }
    EXPECT_EQ(runtime.infer(one.good).size(), 1U);
  }
}

TEST_F(Models, AreEachUsedByATest) {
  std::set<std::string> tried{"matmul_chain", "identity_string", "string_concat", "sequence_output", "zipmap_int64",
                              "zipmap_string", "optional_none", "opset_too_new", "unknown_operator", "unknown_domain",
                              "external_missing", "external_outside", "external_absolute", "identity_complex64", "any",
                              // padded_batch_test.cpp
                              "masked_sum",
                              // tests/cli/sandbox_test.cpp
                              "attempt", "string_upper"};
  for (const Answer& answer : answers()) tried.insert(answer.model);
  for (const auto& entry : std::filesystem::directory_iterator(test_model("add").parent_path())) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".onnx" || name.starts_with("identity_") || name.starts_with("pass_through")) {
      continue;  // the latter: result_memory_test.cpp, value_kinds_test.cpp
    }
    EXPECT_TRUE(tried.contains(name)) << name << " stands in no table of this file";
  }
}

}  // namespace
}  // namespace gpux
