#include "onnx/tensor_file.h"

#include <gpux/error.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/model_writer.h"

namespace gpux::onnx {
namespace {

using onnx_test::MessageWriter;
using testing::ElementsAreArray;
using testing::HasSubstr;

ValueType tensor_type() {
  return {.kind = ValueKind::tensor};
}

ValueType sequence_of(ValueType inner) {
  return {.kind = ValueKind::sequence, .inner = {std::move(inner)}};
}

ValueType optional_of(ValueType inner) {
  return {.kind = ValueKind::optional, .inner = {std::move(inner)}};
}

Tensor float_tensor(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values);
}

std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.byte_size());
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.bytes().data(), bytes.size());
  return bytes;
}

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(bytes_of(a), bytes_of(b));
  if (a.type() == ElementType::string) {
    EXPECT_THAT(a.strings(), ElementsAreArray(b.strings().begin(), b.strings().end()));
  }
}

class RoundTrips : public testing::TestWithParam<int> {};

TEST_P(RoundTrips, KeepEveryBit) {
  const auto type = static_cast<ElementType>(GetParam());
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{2, 3, 5}, Shape{4, 0}}) {
    Tensor tensor = Tensor::allocate(type, shape);
    if (type == ElementType::string) {
      for (std::string& text : tensor.mutable_strings()) text = std::string("a\0\xff", 3);
    } else {
      std::uint8_t next = 0x91;
      const std::uint8_t mask = type == ElementType::boolean ? 1 : 0xff;
      for (std::byte& byte : tensor.mutable_bytes()) byte = static_cast<std::byte>(next++ & mask);
    }
    const Value back = read_value(write_value(tensor, "t"), tensor_type(), "t.pb");
    ASSERT_NE(back.tensor(), nullptr);
    expect_same(*back.tensor(), tensor);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RoundTrips,
                         testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 22, 23, 24,
                                         25, 26),
                         [](const auto& test) { return std::string(to_string(static_cast<ElementType>(test.param))); });

struct TypedCase {
  ElementType type;
  std::int64_t size;
  std::uint32_t field;
  std::vector<std::int64_t> values;
  std::vector<std::uint8_t> bytes;
};

class TypedFields : public testing::TestWithParam<TypedCase> {};

/// The values one by one, or packed into one field.
std::string typed_tensor(const TypedCase& test, bool packed) {
  MessageWriter tensor;
  tensor.number(schema::tensor::dims, test.size)
      .number(schema::tensor::data_type, static_cast<int>(test.type))
      .bytes(schema::tensor::name, "t");
  std::string joined;
  for (const std::int64_t value : test.values) {
    protozero::add_varint_to_buffer(&joined, static_cast<std::uint64_t>(value));
    if (!packed) tensor.number(test.field, value);
  }
  if (packed) tensor.bytes(test.field, joined);
  return tensor.str();
}

TEST_P(TypedFields, AreReadPackedOrNot) {
  for (const bool packed : {false, true}) {
    const Value value = read_value(typed_tensor(GetParam(), packed), tensor_type(), "t.pb");
    ASSERT_NE(value.tensor(), nullptr);
    EXPECT_EQ(value.tensor()->type(), GetParam().type);
    EXPECT_EQ(bytes_of(*value.tensor()), GetParam().bytes) << "packed: " << packed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, TypedFields,
    testing::Values(TypedCase{ElementType::int32, 2, 5, {-2, 70000}, {0xfe, 0xff, 0xff, 0xff, 0x70, 0x11, 0x01, 0x00}},
                    TypedCase{ElementType::int16, 2, 5, {-2, 300}, {0xfe, 0xff, 0x2c, 0x01}},
                    TypedCase{ElementType::uint16, 1, 5, {65535}, {0xff, 0xff}},
                    TypedCase{ElementType::int8, 2, 5, {-128, 127}, {0x80, 0x7f}},
                    TypedCase{ElementType::uint8, 2, 5, {0, 255}, {0x00, 0xff}},
                    TypedCase{ElementType::boolean, 3, 5, {1, 0, 1}, {1, 0, 1}},
                    TypedCase{ElementType::float16, 1, 5, {0x3c00}, {0x00, 0x3c}},
                    TypedCase{ElementType::bfloat16, 1, 5, {0xbf80}, {0x80, 0xbf}},
                    TypedCase{ElementType::float8e4m3fn, 2, 5, {0x38, 0xb8}, {0x38, 0xb8}},
                    TypedCase{ElementType::float8e8m0, 1, 5, {127}, {127}},
                    TypedCase{ElementType::int4, 3, 5, {0xe1, 0x07}, {0xe1, 0x07}},
                    TypedCase{ElementType::uint4, 4, 5, {0x21, 0xff}, {0x21, 0xff}},
                    TypedCase{ElementType::float4e2m1, 2, 5, {0x35}, {0x35}},
                    TypedCase{ElementType::uint2, 5, 5, {0xe4, 0x02}, {0xe4, 0x02}},
                    TypedCase{ElementType::int2, 4, 5, {0x1b}, {0x1b}},
                    TypedCase{ElementType::int64, 1, 7, {-1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
                    TypedCase{ElementType::uint32, 1, 11, {4294967295}, {0xff, 0xff, 0xff, 0xff}},
                    TypedCase{ElementType::uint64, 1, 11, {-2}, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}),
    [](const auto& test) { return std::string(to_string(test.param.type)); });

TEST(TypedFields, OfFloatsAreReadPackedOrNot) {
  const std::vector<float> floats{1.5F, -0.0F};
  const std::vector<double> doubles{0.1, 1e300};
  const std::string float_bytes(reinterpret_cast<const char*>(floats.data()), 8);
  const std::string double_bytes(reinterpret_cast<const char*>(doubles.data()), 16);
  const auto head = [](std::int64_t type) {
    return MessageWriter().number(schema::tensor::dims, 2).number(schema::tensor::data_type, type).str();
  };
  const std::string packed = MessageWriter().bytes(4, float_bytes).str();
  const std::string single = '\x25' + float_bytes.substr(0, 4) + '\x25' + float_bytes.substr(4);
  for (const std::string& data : {packed, single}) {
    const Value value = read_value(head(1) + data, tensor_type(), "t.pb");
    expect_same(*value.tensor(), Tensor::of<float>({2}, floats));
  }
  const Value value = read_value(head(11) + MessageWriter().bytes(10, double_bytes).str(), tensor_type(), "t.pb");
  expect_same(*value.tensor(), Tensor::of<double>({2}, doubles));
}

TEST(Sequences, RoundTrip) {
  const Sequence flat{{float_tensor({1, 2}), float_tensor({3})}};
  const Value sequence = read_value(write_value(flat, "s"), sequence_of(tensor_type()), "s.pb");
  ASSERT_NE(sequence.sequence(), nullptr);
  ASSERT_EQ(sequence.sequence()->values.size(), 2U);
  expect_same(*sequence.sequence()->values[1].tensor(), float_tensor({3}));

  const Sequence nested{{flat, Sequence{}}};
  const Value deep = read_value(write_value(nested, "s"), sequence_of(sequence_of(tensor_type())), "s.pb");
  ASSERT_EQ(deep.sequence()->values.size(), 2U);
  EXPECT_EQ(deep.sequence()->values[0].sequence()->values.size(), 2U);
  EXPECT_TRUE(deep.sequence()->values[1].sequence()->values.empty());

  const Value empty = read_value(write_value(Sequence{}, "s"), sequence_of(tensor_type()), "s.pb");
  EXPECT_TRUE(empty.sequence()->values.empty());
}

TEST(Optionals, HoldNothingOrAValueWithOrWithoutTheirMessage) {
  const ValueType of_tensor = optional_of(tensor_type());
  const ValueType of_sequence = optional_of(sequence_of(tensor_type()));
  const Value tensor = float_tensor({1, 2});
  const Value sequence = Sequence{{float_tensor({3})}};

  EXPECT_TRUE(read_value(write_value({}, "o"), of_tensor, "o.pb").is_none());
  EXPECT_TRUE(read_value("", of_tensor, "o.pb").is_none());
  for (const std::string& bytes : {write_optional(tensor, "o"), write_value(tensor, "o")}) {
    const Value value = read_value(bytes, of_tensor, "o.pb");
    ASSERT_NE(value.tensor(), nullptr);
    expect_same(*value.tensor(), *tensor.tensor());
  }
  for (const std::string& bytes : {write_optional(sequence, "o"), write_value(sequence, "o")}) {
    const Value value = read_value(bytes, of_sequence, "o.pb");
    ASSERT_NE(value.sequence(), nullptr);
    ASSERT_EQ(value.sequence()->values.size(), 1U);
  }
}

std::string failure_of(const auto& work) {
  try {
    work();
    return "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    return error.message();
  }
}

TEST(Writing, RefusesWhatCannotBeKept) {
  const Tensor keys = Tensor::of<std::int64_t>({1}, std::vector<std::int64_t>{1});
  EXPECT_THAT(failure_of([&] { write_value(Map{keys, keys}, "m"); }), HasSubstr("maps"));
  EXPECT_THAT(failure_of([&] { write_value(Sequence{{Map{keys, keys}}}, "m"); }), HasSubstr("maps"));
  EXPECT_THAT(failure_of([&] { write_value(Sequence{{keys, Sequence{}}}, "m"); }), HasSubstr("unlike"));
  EXPECT_THAT(failure_of([&] { write_value(Sequence{{Value{}}}, "m"); }), HasSubstr("nothing"));
  EXPECT_THAT(failure_of([] { write_value(Tensor::allocate(ElementType::complex64, {1}), "c"); }),
              HasSubstr("complex64 tensors are not supported"));
  // Copies share their data: this is 64 MB that would be 2.6 GB in a file.
  const Sequence repeated{std::vector<Value>(40, Tensor::allocate(ElementType::int8, {1 << 26}))};
  EXPECT_THAT(failure_of([&] { write_value(repeated, "s"); }), HasSubstr("2 GB"));
}

struct BadCase {
  std::string name, bytes;
  ValueType expected;
  std::string reason;
};

void PrintTo(const BadCase& test, std::ostream* stream) {
  *stream << test.name;
}

std::vector<BadCase> bad_cases() {
  const auto tensor = [](std::int64_t size, std::int64_t type) {
    return MessageWriter().number(schema::tensor::dims, size).number(schema::tensor::data_type, type);
  };
  const std::string map = MessageWriter().bytes(schema::sequence::map_values, "").str();
  std::string deep;
  for (int i = 0; i < 100; ++i) deep = MessageWriter().bytes(schema::sequence::sequence_values, deep).str();
  return {
      {"empty", "", tensor_type(), "no element type"},
      {"text", "hello, world", tensor_type(), "holds no TensorProto: it looks like plain text"},
      {"complex", tensor(1, 14).bytes(9, "12345678").str(), tensor_type(), "complex64 tensors are not supported"},
      {"external", onnx_test::external_tensor("w", ElementType::float32, {1}, {{"location", "w.bin"}}), tensor_type(),
       "'w.bin'"},
      {"raw_too_short", tensor(2, 1).bytes(9, "1234").str(), tensor_type(), "takes 8 bytes"},
      {"raw_too_long", tensor(1, 1).bytes(9, "12345678").str(), tensor_type(), "takes 4 bytes"},
      {"too_few_values", tensor(3, 6).number(5, 1).str(), tensor_type(), "takes 3 values, 1 are there"},
      {"too_few_packed_values", tensor(3, 6).bytes(5, "\x80\x80\x01").str(), tensor_type(), "does not hold 1 values"},
      {"too_many_values", tensor(1, 6).bytes(5, "\x01\x01").str(), tensor_type(), "does not hold 2 values"},
      {"too_many_floats", tensor(1, 1).bytes(4, "12345678").str(), tensor_type(), "does not hold 2 values"},
      {"too_many_strings", tensor(1, 8).bytes(6, "a").bytes(6, "b").str(), tensor_type(), "does not hold 2 values"},
      {"values_in_the_wrong_field", tensor(1, 7).number(5, 1).str(), tensor_type(), "does not hold 0 values"},
      {"out_of_range", tensor(1, 2).number(5, 300).str(), tensor_type(), "300 does not fit uint8"},
      {"uint32_out_of_range", tensor(1, 12).number(11, 4294967296).str(), tensor_type(), "does not fit uint32"},
      {"bool_out_of_range", tensor(1, 9).bytes(9, "\x02").str(), tensor_type(), "neither 0 nor 1"},
      {"huge_claim", tensor(std::int64_t{1} << 50, 6).number(5, 1).str(), tensor_type(), "1 are there"},
      {"negative_size", tensor(-4, 6).number(5, 1).str(), tensor_type(), "negative"},
      {"unknown_type", tensor(1, 77).str(), tensor_type(), "element type 77"},
      {"map_expected", "", {.kind = ValueKind::map, .inner = {tensor_type()}}, "maps in .pb files are not supported"},
      {"sparse_expected", "", {.kind = ValueKind::sparse_tensor}, "sparse tensors in .pb files are not supported"},
      {"sequence_of_maps", map, sequence_of(tensor_type()), "maps in .pb files are not supported"},
      {"tensor_for_a_sequence", tensor(1, 1).bytes(9, "1234").str(), sequence_of(tensor_type()),
       "a sequence has no field 9"},
      {"sequence_too_deep", deep, sequence_of(tensor_type()), "it holds a sequence, where a tensor is expected"},
      {"sequence_of_tensors_for_one_of_sequences", write_value(Sequence{{float_tensor({1})}}, "s"),
       sequence_of(sequence_of(tensor_type())), "it holds a tensor, where a sequence is expected"},
      {"optional_sequence_for_an_optional_tensor", write_optional(Sequence{}, "o"), optional_of(tensor_type()),
       "it holds a sequence, where a tensor is expected"},
  };
}

class BadFiles : public testing::TestWithParam<BadCase> {};

TEST_P(BadFiles, AreRefusedWithAReason) {
  const std::string refusal = failure_of([] { read_value(GetParam().bytes, GetParam().expected, "in.pb"); });
  EXPECT_THAT(refusal, AllOf(HasSubstr("'in.pb'"), HasSubstr(GetParam().reason)));
}

INSTANTIATE_TEST_SUITE_P(All, BadFiles, testing::ValuesIn(bad_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(DamagedFiles, AreReadOrRefused) {
  const std::string tensor = write_value(float_tensor({1, 2, 3}), "t");
  const std::string sequence = write_value(Sequence{{float_tensor({1}), Tensor::of_strings({1}, {"a"})}}, "s");
  const std::string optional = write_optional(float_tensor({1}), "o");
  const std::vector<std::pair<std::string, ValueType>> files{
      {tensor, tensor_type()}, {sequence, sequence_of(tensor_type())}, {optional, optional_of(tensor_type())}};
  std::mt19937 random(21);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto& [whole, type] = files[static_cast<std::size_t>(round) % files.size()];
    std::vector<char> damaged(whole.begin(), whole.end());
    damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
    if (round % 2 == 0) damaged.resize(random() % damaged.size());
    try {
      read_value({damaged.data(), damaged.size()}, type, "damaged.pb");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace gpux::onnx
