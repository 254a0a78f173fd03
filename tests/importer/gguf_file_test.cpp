// GGUF files that are broken, and what their tensors become.
#include "importer/gguf/gguf_file.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "importer/gguf/import_gguf.h"
#include "importer/gguf/stored_blocks.h"
#include "importer/gguf_bytes.h"

namespace gpux::importer::gguf {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A file of two tensors; a test changes one of its parts.
struct Parts {
  std::string begin = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t tensor_count = 2, key_count = 2;
  std::string keys = key("general.architecture", 8, text("llama")) + key("some.flag", 7, number(std::uint8_t{1}));
  std::string tensors = description("a", {4, 2}, 0, 0) + description("b", {32}, 8, 32);
  std::string data = std::string(32 + 34, 'x');

  [[nodiscard]] std::string bytes() const {
    std::string all = begin + number(version) + number(tensor_count) + number(key_count) + keys + tensors;
    all.resize((all.size() + 31) / 32 * 32);
    return all + data;
  }
};

void read(const std::string& bytes) {
  const test::TemporaryFolder folder;
  const GgufFile file(folder.write("model.gguf", bytes));
}

TEST(GgufFiles, AreRead) {
  const test::TemporaryFolder folder;
  const GgufFile file(folder.write("model.gguf", Parts().bytes()));
  EXPECT_EQ(file.metadata().text("general.architecture"), "llama");
  EXPECT_EQ(file.metadata().flag("some.flag"), true);
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("a")->shape, (Shape{2, 4}));
  ASSERT_NE(file.find("b"), nullptr);
  EXPECT_EQ(file.find("b")->bytes.size(), 34U);
}

// What a hub is asked for before the whole file.
TEST(GgufFiles, ShowTheirFamilyInTheirFirstBytes) {
  Parts parts;
  const std::string supported = parts.bytes();
  for (std::size_t size = 24; size < supported.size(); ++size) {
    EXPECT_NO_THROW(require_importable_gguf(std::string_view(supported).substr(0, size))) << size;
  }
  EXPECT_EQ(read_first_metadata(std::string_view(supported).substr(0, 80)).text("general.architecture"), "llama");
  parts.keys = key("general.architecture", 8, text("mamba")) + key("some.flag", 7, number(std::uint8_t{1}));
  Parts old;
  old.version = 1;
  for (const auto& [bytes, message] :
       std::vector<std::pair<std::string, const char*>>{{parts.bytes().substr(0, 80), "general.architecture is"},
                                                        {std::string(100, 'x'), "it is no GGUF file"},
                                                        {"", "it is no GGUF file"},
                                                        {old.bytes(), "its version is 1"}}) {
    try {
      require_importable_gguf(bytes);
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      EXPECT_THAT(error.message(), HasSubstr(message));
    }
  }
}

struct BadFile {
  const char* name;
  std::function<void(Parts&)> change;
  const char* message;
};

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedInOneLine) {
  Parts parts;
  GetParam().change(parts);
  try {
    read(parts.bytes());
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr(GetParam().message));
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
  }
}

constexpr std::uint64_t huge = std::uint64_t{1} << 60;

INSTANTIATE_TEST_SUITE_P(
    All, BadFiles,
    testing::Values(
        BadFile{"magic", [](Parts& p) { p.begin = "GGML"; }, "is no GGUF file"},
        BadFile{"old_version", [](Parts& p) { p.version = 1; }, "its version is 1; accepted: 2, 3"},
        BadFile{"new_version", [](Parts& p) { p.version = 4; }, "its version is 4; accepted: 2, 3"},
        BadFile{"big_endian", [](Parts& p) { p.version = 3U << 24U; }, "it is big-endian"},
        BadFile{"many_keys", [](Parts& p) { p.key_count = huge; }, "at most 65536 are read"},
        BadFile{"many_tensors", [](Parts& p) { p.tensor_count = huge; }, "at most 131072 are read"},
        BadFile{"key_longer_than_the_file", [](Parts& p) { p.keys = number(huge); },
                "a key is longer than the file or the limit"},
        BadFile{"empty_key", [](Parts& p) { p.keys = key("", 7, number(std::uint8_t{1})) + p.keys; },
                "the key '' is no text"},
        BadFile{"type_of_value", [](Parts& p) { p.keys = key("x", 13, ""); }, "its type is 13; accepted: 0 to 12"},
        BadFile{"flag", [](Parts& p) { p.keys = key("x", 7, number(std::uint8_t{2})); }, "a flag is 2; accepted: 0, 1"},
        BadFile{"long_text", [](Parts& p) { p.keys = key("x", 8, number(huge)); }, "is longer than the file"},
        BadFile{"long_list", [](Parts& p) { p.keys = key("x", 9, number(std::uint32_t{4}) + number(huge)); },
                "it has more elements than the file or the limit"},
        BadFile{"list_of_lists",
                [](Parts& p) { p.keys = key("x", 9, number(std::uint32_t{9}) + number(std::uint64_t{1})); },
                "it is a list of type 9"},
        BadFile{"key_twice",
                [](Parts& p) {
                  const std::string one = key("some.flag", 7, number(std::uint8_t{1}));
                  p.keys = one + one;
                },
                "it has the key 'some.flag' twice"},
        BadFile{"alignment",
                [](Parts& p) {
                  p.keys += key("general.alignment", 4, number(std::uint32_t{48}));
                  p.key_count = 3;
                },
                "'general.alignment' is 48; accepted: a power of 2 up to 1048576"},
        BadFile{"later_part",
                [](Parts& p) {
                  p.keys += key("split.no", 2, number(std::uint16_t{1}));
                  p.key_count = 3;
                },
                "it is part 2 of a model"},
        BadFile{"missing_part",
                [](Parts& p) {
                  p.keys += key("split.count", 2, number(std::uint16_t{3}));
                  p.key_count = 3;
                },
                "is the first of 3 parts"},
        BadFile{"dimensions",
                [](Parts& p) {
                  p.tensors = description("a", {1, 1, 1, 1, 1}, 0, 0);
                },
                "'a' has 5 dimensions; at most 4 are read"},
        BadFile{"large_tensor",
                [](Parts& p) {
                  p.tensors = description("a", {huge, huge}, 0, 0);
                },
                "'a' is too large"},
        BadFile{"unread_type", [](Parts& p) { p.tensors = description("a", {256}, 16, 0); },
                "'a' has type IQ2_XXS; accepted: F32, F16, Q4_0"},
        BadFile{"unknown_type", [](Parts& p) { p.tensors = description("a", {256}, 99, 0); },
                "'a' has type 99; accepted: F32, F16, Q4_0"},
        BadFile{"part_of_a_block", [](Parts& p) { p.tensors = description("a", {33}, 2, 0); },
                "'a' has rows of 33 elements, which are no whole blocks of Q4_0"},
        BadFile{"unaligned_offset",
                [](Parts& p) { p.tensors = description("a", {1}, 0, 4) + description("b", {32}, 8, 32); },
                "'a' is at 4, which is no multiple of 32"},
        BadFile{"offset_behind_the_file",
                [](Parts& p) {
                  p.tensors = description("a", {4, 2}, 0, 96) + description("b", {32}, 8, 32);
                },
                "'a' is not in the file as a whole"},
        BadFile{"offset_that_overflows",
                [](Parts& p) {
                  p.tensors = description("a", {4, 2}, 0, ~std::uint64_t{31}) + description("b", {1}, 0, 0);
                },
                "'a' is not in the file as a whole"},
        BadFile{"tensor_twice",
                [](Parts& p) {
                  p.tensors = description("a", {4, 2}, 0, 0) + description("a", {32}, 8, 32);
                },
                "'a' is there twice"},
        BadFile{"truncated", [](Parts& p) { p.data.pop_back(); }, "'b' is not in the file as a whole"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GgufFiles, CutAnywhereAreRefused) {
  const std::string bytes = Parts().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      read(bytes.substr(0, size));
      ADD_FAILURE() << size << " bytes were read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model) << size;
    }
  }
}

std::vector<std::byte> bytes_of(const std::string& hexadecimal) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hexadecimal.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct StoredRows {
  std::string name;
  TensorType type{};
  std::int64_t columns = 0;
  std::vector<std::byte> bytes;
  std::vector<float> elements;
};

// Two rows of each type, as ggml rounds them, and the elements that the Python package gguf gives.
std::vector<StoredRows> reference_rows() {
  std::vector<StoredRows> all;
  for (const json& row : json::parse(read_file(GPUX_SOURCE_DIR "/tests/importer/gguf/types.json"))) {
    const std::vector<std::byte> elements = bytes_of(row.at("elements"));
    StoredRows made{.name = row.at("type"),
                    .type = static_cast<TensorType>(row.at("number").get<std::uint32_t>()),
                    .columns = row.at("columns"),
                    .bytes = bytes_of(row.at("bytes")),
                    .elements = std::vector<float>(elements.size() / sizeof(float))};
    std::memcpy(made.elements.data(), elements.data(), elements.size());
    all.push_back(std::move(made));
  }
  return all;
}

TEST(TensorTypes, HaveTheElementsOfGgml) {
  const std::vector<StoredRows> all = reference_rows();
  EXPECT_EQ(all.size(), 16U);
  for (const StoredRows& rows : all) {
    std::vector<float> elements(rows.elements.size());
    read_elements(rows.type, rows.bytes, elements);
    EXPECT_EQ(elements, rows.elements) << rows.name;
  }
}

TEST(TensorTypes, LoseNothingAsBlocks) {
  int with_minimums = 0, without = 0;
  for (const StoredRows& rows : reference_rows()) {
    const auto format = block_format_of(rows.type);
    if (!format) continue;
    ++(format->has_minimums ? with_minimums : without);
    const auto blocks = stored_blocks(rows.type, rows.bytes, 2, rows.columns);
    ASSERT_TRUE(blocks) << rows.name;
    EXPECT_EQ(onnx::elements_of(*blocks, 2, rows.columns, *format), rows.elements) << rows.name;
  }
  EXPECT_EQ(with_minimums, 5);  // Q4_1, Q5_1, Q2_K, Q4_K, Q5_K
  EXPECT_EQ(without, 8);        // Q4_0, Q5_0, Q8_0, Q3_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4
}

// Scales and minimums of any finite sizes beside each other, also far from each other.
TEST(TensorTypes, WithMinimumsLoseNothingWhateverTheyAre) {
  struct Case {
    TensorType type;
    std::size_t scale, minimum;  // where a block has them
  };

  std::mt19937 random(1);
  for (const auto& [type, scale, minimum] :
       {Case{TensorType::q4_1, 0, 2}, Case{TensorType::q5_1, 0, 2}, Case{TensorType::q2_k, 80, 82},
        Case{TensorType::q4_k, 0, 2}, Case{TensorType::q5_k, 0, 2}}) {
    const TypeFacts& facts = facts_of(type);
    constexpr std::size_t blocks = 4000;
    std::vector<std::byte> bytes(blocks * facts.block_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    for (std::size_t block = 0; block < blocks; ++block) {
      for (const std::size_t at : {scale, minimum}) {
        const std::uint16_t half = static_cast<std::uint16_t>(random() % 0x7C00) | (random() % 8 == 0 ? 0x8000U : 0U);
        std::memcpy(bytes.data() + block * facts.block_bytes + at, &half, sizeof half);
      }
    }
    const auto columns = static_cast<std::int64_t>(4 * facts.block_elements),
               rows = static_cast<std::int64_t>(blocks) / 4;
    std::vector<float> elements(blocks * facts.block_elements);
    read_elements(type, bytes, elements);
    const auto made = stored_blocks(type, bytes, rows, columns);
    ASSERT_TRUE(made) << facts.name;
    EXPECT_TRUE(onnx::elements_of(*made, rows, columns, block_format_of(type).value()) == elements) << facts.name;
    // Most of them have a zero point among their values.
    const auto points = std::ranges::count_if(made->zero_points, [](std::uint8_t point) { return point != 0; });
    EXPECT_GT(points, 0) << facts.name;
  }
}

TEST(TensorTypes, OfNoNumberAreNoBlocks) {
  for (const StoredRows& rows : reference_rows()) {
    // All scales of MXFP4 are numbers.
    if (!block_format_of(rows.type) || rows.type == TensorType::mxfp4) continue;
    const std::vector<std::byte> bytes(rows.bytes.size(), std::byte{0xff});
    EXPECT_FALSE(stored_blocks(rows.type, bytes, 2, rows.columns)) << rows.name;
  }
}

TEST(StorageReports, HaveALineForEachType) {
  StorageReport report;
  report.add(TensorType::q4_k);
  report.add(TensorType::q4_0);
  report.add(TensorType::q4_k);
  const std::vector<StoredWeights> lines = report.summary();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].type, "Q4_0");
  EXPECT_EQ(lines[0].bits, 4);
  EXPECT_EQ(lines[1].type, "Q4_K");
  EXPECT_EQ(lines[1].matrices, 2);
  EXPECT_EQ(lines[1].bits, 4);
}

}  // namespace
}  // namespace gpux::importer::gguf
