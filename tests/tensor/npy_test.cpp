#include "tensor/npy.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "tensors.h"

namespace gpux::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor read(const std::string& file, std::optional<ElementType> declared = std::nullopt) {
  return read_npy(bytes_of(file), declared);
}

// A format 1 file with that header text and data.
std::string file_of(std::string_view header, std::string_view data = {}) {
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(header.size() & 0xffU);
  file += static_cast<char>(header.size() >> 8);
  return file.append(header).append(data);
}

TEST(Npy, ReadsEveryNumberNumPyWrites) {
  const struct {
    std::string name;
    ElementType type;
  } cases[] = {{"i1", ElementType::int8},
               {"i2", ElementType::int16},
               {"i4", ElementType::int32},
               {"i8", ElementType::int64},
               {"u1", ElementType::uint8},
               {"u2", ElementType::uint16},
               {"u4", ElementType::uint32},
               {"u8", ElementType::uint64},
               {"f2", ElementType::float16},
               {"f4", ElementType::float32},
               {"f8", ElementType::float64},
               {"big_endian_f4", ElementType::float32},
               {"big_endian_i8", ElementType::int64},
               {"fortran_f4", ElementType::float32},
               {"version_2", ElementType::float32},
               {"version_3", ElementType::float32}};

  for (const auto& c : cases) {
    const std::string file = reference("grid_" + c.name + ".npy");
    const Tensor tensor = read(file);
    EXPECT_EQ(tensor.type(), c.type) << c.name;
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    EXPECT_THAT(read(file, ElementType::float64).as<double>(), ElementsAre(0, 1, 2, 3, 4, 5)) << c.name;
  }
  EXPECT_THAT(read(reference("grid_b1.npy")).as<bool>(), ElementsAre(false, true, false, true, false, true));
  const Tensor cube = read(reference("cube_fortran_i2.npy"));
  std::vector<std::int16_t> counted(24);
  std::iota(counted.begin(), counted.end(), std::int16_t{0});
  EXPECT_EQ(cube.shape(), (Shape{2, 3, 4}));
  EXPECT_THAT(cube.as<std::int16_t>(), ::testing::ElementsAreArray(counted));
  EXPECT_EQ(read(reference("scalar_f4.npy")).shape(), Shape{});
  EXPECT_THAT(read(reference("scalar_f4.npy")).as<float>(), ElementsAre(2.5F));
  EXPECT_EQ(read(reference("empty_f4.npy")).shape(), (Shape{0, 3}));
}

TEST(Npy, ReadsStrings) {
  const Tensor text = read(reference("text_u.npy"));
  EXPECT_EQ(text.shape(), (Shape{2, 2}));
  EXPECT_THAT(text.strings(), ElementsAre("a", "Grüße", "", "日本語 🙂"));
  EXPECT_THAT(read(reference("text_u_big_endian.npy")).strings(), ElementsAre("a", "Grüße"));
  EXPECT_THAT(read(reference("text_u_fortran.npy")).strings(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(read(reference("text_s.npy")).strings(), ElementsAre("ab", "\xff", ""));
}

TEST(Npy, ReadsRawElementsAsTheDeclaredType) {
  const Tensor bfloat16 = read(reference("raw_bfloat16.npy"), ElementType::bfloat16);
  EXPECT_EQ(to_float(bfloat16.as<BFloat16>()[1]), -2.5F);
  EXPECT_EQ(to_float(bfloat16.as<BFloat16>()[2]), 3.140625F);
  EXPECT_THAT(read(reference("raw_float8e4m3fn.npy"), ElementType::float8e4m3fn).bytes(),
              ElementsAre(std::byte{0x38}, std::byte{0xc2}, std::byte{0x7e}));
  EXPECT_THAT(read(reference("raw_int4.npy"), ElementType::int4).bytes(),
              ElementsAre(std::byte{0xf8}, std::byte{0x70}, std::byte{0x03}));
  EXPECT_THAT(refusal_of([] { read(reference("raw_bfloat16.npy")); }), HasSubstr("raw elements of 2 bytes"));
  EXPECT_THAT(refusal_of([] { read(reference("raw_bfloat16.npy"), ElementType::float32); }),
              HasSubstr("raw elements of 2 bytes are not float32"));
}

TEST(Npy, ConvertsToTheDeclaredType) {
  EXPECT_THAT(read(reference("grid_f8.npy"), ElementType::float32).as<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read(reference("grid_i8.npy"), ElementType::int4).bytes(),
              ElementsAre(std::byte{0x10}, std::byte{0x32}, std::byte{0x54}));
  EXPECT_THAT(refusal_of([] { read(reference("grid_i8.npy"), ElementType::boolean); }),
              HasSubstr("[0][2]: 2 does not fit bool"));
  EXPECT_THAT(refusal_of([] { read(reference("grid_i8.npy"), ElementType::string); }),
              HasSubstr("cannot be converted"));
}

TEST(Npy, RefusesWhatItCannotRead) {
  EXPECT_THAT(refusal_of([] { read(reference("complex.npy")); }), HasSubstr("kind c and 8 bytes"));
  EXPECT_THAT(refusal_of([] { read(reference("structured.npy")); }), HasSubstr("structures"));
  EXPECT_THAT(refusal_of([] { read(reference("object.npy")); }), HasSubstr("Python objects"));
  EXPECT_THAT(refusal_of([] { read(reference("times.npy")); }), HasSubstr("times"));
}

TEST(Npy, RefusesDamagedFiles) {
  const std::string four(4, '\0');

  const struct {
    std::string file;
    std::string expected;
  } cases[] = {
      {"", "not a .npy file"},
      {"hello world", "not a .npy file"},
      {std::string("\x93NUMPY\x09\x00\x10\x00", 10), "format 9 is unknown"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13), "ends within the header"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", four + "x"), "4 bytes are announced, 5"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", four), "announced"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", four), "64 bits"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", four), "not a size"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", four), "not a size"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1, }", four), "not a size"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", four), "the header is not"},
      {file_of("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", four), "the header is not"},
      {file_of("{'descr': '<f4', 'shape': (1,), }", four), "the header is not"},
      {file_of("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", four), "once each"},
      {file_of("{'descr': '<f4', 'other': 1, 'fortran_order': False, 'shape': (1,), }", four), "other"},
      {file_of("{'descr': '<f4, 'fortran_order': False, 'shape': (1,), }", four), "not a size"},
      {file_of("{'descr': '<g4', 'fortran_order': False, 'shape': (1,), }", four), "kind g"},
      {file_of("{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", four + four + four + four), "16 bytes"},
      {file_of("{'descr': '', 'fortran_order': False, 'shape': (1,), }", four), "unknown"},
      {file_of("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,), }"), "no bytes"},
      {file_of("{'descr': '<U999999999999999999', 'fortran_order': False, 'shape': (1,), }"), "larger than any file"},
      {file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", "\x02"), "neither 0 nor 1"},
      {file_of("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", std::string("\x00\xd8\x00\x00", 4)),
       "0xd800"},
      {file_of("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "\xff\xff\xff\xff"), "no character"},
  };

  for (const auto& c : cases) {
    if (c.expected == "4 bytes are announced, 5") {
      EXPECT_THAT(refusal_of([&] { read(c.file); }), HasSubstr("1 elements of 4 bytes are announced, 5 bytes follow"));
    } else {
      EXPECT_THAT(refusal_of([&] { read(c.file); }), HasSubstr(c.expected));
    }
  }
  std::string dimensions;
  for (int i = 0; i < 65; ++i) dimensions += "1,";
  EXPECT_THAT(refusal_of([&] {
                read(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (" + dimensions + ")}", four));
              }),
              HasSubstr("more than 64 dimensions"));
}

TEST(Npy, EveryTruncationIsRefused) {
  for (const std::string name : {"grid_f4.npy", "text_u.npy", "grid_version_3.npy"}) {
    const std::string whole = reference(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_THAT(refusal_of([&] { read(whole.substr(0, length)); }), HasSubstr("npy: ")) << name << " " << length;
    }
  }
}

TEST(Npy, DamagedFilesNeverCrash) {
  std::mt19937_64 random(22);  // NOLINT(cert-msc51-cpp): the same cases each time
  const std::string whole = reference("cube_fortran_i2.npy");
  for (int round = 0; round < 20000; ++round) {
    std::string file = whole;
    for (std::size_t i = 1 + random() % 3; i > 0; --i) file[random() % 80] = static_cast<char>(random() % 128);
    try {
      read(file);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::invalid_input) << error.what();
    }
  }
}

TEST(Npy, RefersToTheOwnersMemoryWhereItCan) {
  const auto file = std::make_shared<std::string>(reference("grid_f4.npy"));
  const Tensor borrowed = read_npy(bytes_of(*file), std::nullopt, file);
  EXPECT_EQ(reinterpret_cast<const char*>(borrowed.bytes().data()), file->data() + 128);
  const Tensor copied = read_npy(bytes_of(*file));
  EXPECT_NE(reinterpret_cast<const char*>(copied.bytes().data()), file->data() + 128);
  EXPECT_TRUE(same(borrowed, copied));
}

TEST(Npy, WritesTheBytesNumPyWrites) {
  for (const std::string name :
       {"grid_b1", "grid_i1", "grid_i2", "grid_i4", "grid_i8", "grid_u1", "grid_u2", "grid_u4", "grid_u8", "grid_f2",
        "grid_f4", "grid_f8", "scalar_f4", "empty_f4", "text_u", "text_s"}) {
    const std::string file = reference(name + ".npy");
    std::string out;
    append_npy(out, read(file));
    EXPECT_EQ(out, file) << name;
  }

  const struct {
    std::string name;
    ElementType type;
  } raw[] = {{"raw_bfloat16", ElementType::bfloat16},
             {"raw_float8e4m3fn", ElementType::float8e4m3fn},
             {"raw_int4", ElementType::int4},
             {"raw_uint4", ElementType::uint4}};

  for (const auto& c : raw) {
    const std::string file = reference(c.name + ".npy");
    std::string out;
    append_npy(out, read(file, c.type));
    EXPECT_EQ(out, file) << c.name;
  }
}

TEST(Npy, RefusesToWriteWhatNumPyWouldChange) {
  std::string out;
  const Tensor ends_in_zero = Tensor::of_strings({1}, {std::string("a\0", 2)});
  EXPECT_THAT(refusal_of([&] { append_npy(out, ends_in_zero); }), HasSubstr("zero character"));
  EXPECT_THAT(refusal_of([&] { append_npy(out, Tensor::allocate(ElementType::complex64, {1})); }),
              HasSubstr("complex64"));
  std::vector<std::string> uneven(1 << 20);
  uneven.front().assign(1 << 20, 'a');
  const Tensor padded = Tensor::of_strings({1 << 20}, std::move(uneven));
  EXPECT_THAT(message_of(ErrorCode::resource_exhausted, [&] { append_npy(out, padded); }), HasSubstr("1 GiB"));
}

}  // namespace
}  // namespace gpux::test
