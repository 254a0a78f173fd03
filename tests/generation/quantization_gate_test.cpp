// Decoders with weights in blocks of each format, against those with the weights of the file.
#include "generation/quantization_gate.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "importer/import_model.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path references = GPUX_SOURCE_DIR "/tests/generation/references";

std::string words(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("w{} ", (7 * i * i + 3 * i) % 200);
  return text;
}

struct Format {
  onnx::BlockFormat blocks;
  double max_error;  ///< of the logits: length of the difference to the length of the original's
};

std::string name_of(const onnx::BlockFormat& blocks) {
  return fmt::format("int{}_of_{}{}", blocks.bits, blocks.block_size,
                     blocks.has_zero_points ? "_with_zero_points" : "");
}

void PrintTo(const Format& format, std::ostream* out) {
  *out << name_of(format.blocks);
}

class QuantizedDecoders : public testing::TestWithParam<std::tuple<const char*, Format>> {
 protected:
  static void SetUpTestSuite() { folder_ = new test::TemporaryFolder; }

  static void TearDownTestSuite() { delete folder_; }

  static fs::path import(const std::string& family, const std::optional<onnx::BlockFormat>& blocks) {
    const fs::path made = folder_->path() / (family + (blocks ? name_of(*blocks) : std::string()));
    if (!fs::exists(made)) importer::import_model(references / family, made, {.blocks = blocks});
    return made;
  }

  static std::vector<float> logits(const fs::path& folder) {
    const text::Tokenizer tokenizer = text::Tokenizer::from_file(folder / "tokenizer.json");
    const std::vector<std::uint32_t> prompt = measured_parts(tokenizer, words(40)).front();
    Decoder decoder(Runtime(folder / "model.onnx"), 1);
    decoder.reserve(prompt.size(), {0});
    const Decoder::Row row{0, prompt};
    const Tensor last = decoder.run(0, {&row, 1});
    return {last.as<float>().begin(), last.as<float>().end()};
  }

  static inline test::TemporaryFolder* folder_ = nullptr;
};

TEST_P(QuantizedDecoders, HaveLogitsNearTheOriginal) {
  const auto& [family, format] = GetParam();
  const std::vector<float> expected = logits(import(family, {}));
  const std::vector<float> got = logits(import(family, format.blocks));
  ASSERT_EQ(got.size(), expected.size());
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    length += std::pow(static_cast<double>(expected[i]), 2);
  }
  const double error = std::sqrt(difference / length);
  EXPECT_LT(error, format.max_error);
  // Rounding shows: the weights are in blocks.
  EXPECT_GT(error, 1e-4);
}

// A table of the words that is the output layer, too, is stored once.
TEST_P(QuantizedDecoders, StoreATiedTableOnce) {
  const auto& [family, format] = GetParam();
  const fs::path made = import(family, format.blocks);
  const std::map<std::string, std::uint64_t> types = ModelInspector::inspect(made / "model.onnx").parameter_types;
  constexpr std::uint64_t vocabulary = 204;
  // A row of the table, filled up to a whole block.
  const auto row = [&](std::uint64_t width) {
    const auto blocks = static_cast<std::uint64_t>(format.blocks.blocks_per_row(static_cast<std::int64_t>(width)));
    return blocks * static_cast<std::uint64_t>(format.blocks.block_bytes()) +
           (format.blocks.has_zero_points
                ? static_cast<std::uint64_t>(format.blocks.zero_point_bytes_per_row(static_cast<std::int64_t>(width)))
                : 0);
  };
  // By family: rows of the other matrices, by their width.
  const std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> matrices{
      {"qwen3", {{32, 2 * (64 + 2 * 32 + 2 * 32)}, {64, 2 * 32}, {32, 2 * 32}}},
      {"llama3", {{32, 2 * (64 + 2 * 32 + 2 * 32)}, {64, 2 * 32}, {32, 2 * 32}}},
      {"gpt2", {{32, 2 * (3 * 32 + 32 + 48)}, {48, 2 * 32}}}};
  std::uint64_t expected = vocabulary * row(32);
  for (const auto& [width, rows] : matrices.at(family)) expected += rows * row(width);
  EXPECT_EQ(types.at("uint8"), expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantizedDecoders,
    testing::Combine(testing::Values("qwen3", "llama3", "gpt2"),
                     testing::Values(Format{{.bits = 4, .block_size = 32, .has_zero_points = false}, 0.5},
                                     Format{{.bits = 4, .block_size = 32, .has_zero_points = true}, 0.5},
                                     Format{{.bits = 4, .block_size = 128, .has_zero_points = false}, 0.5},
                                     Format{{.bits = 4, .block_size = 128, .has_zero_points = true}, 0.5},
                                     Format{{.bits = 8, .block_size = 32, .has_zero_points = false}, 0.05},
                                     Format{{.bits = 8, .block_size = 32, .has_zero_points = true}, 0.05},
                                     Format{{.bits = 8, .block_size = 128, .has_zero_points = false}, 0.05},
                                     Format{{.bits = 8, .block_size = 128, .has_zero_points = true}, 0.05})),
    [](const auto& test) {
      return fmt::format("{}_{}", std::get<0>(test.param), name_of(std::get<1>(test.param).blocks));
    });

TEST(QuantizationGate, MeasuresPartsOfAText) {
  const text::Tokenizer tokenizer = text::Tokenizer::from_file(references / "qwen3/tokenizer.json");
  const auto parts = measured_parts(tokenizer, words(10000));
  ASSERT_EQ(parts.size(), 16);
  for (const auto& part : parts) {
    EXPECT_EQ(part.size(), 65);
    EXPECT_EQ(part.front(), 2);  // <s>
  }
  EXPECT_NE(parts[0], parts[1]);
  const auto few = measured_parts(tokenizer, words(5));
  ASSERT_EQ(few.size(), 1);
  EXPECT_EQ(few.front().size(), 6);
  EXPECT_THROW((void)measured_parts(tokenizer, "w1"), Error);
}

// As a text run as a whole, whose last logits are known: the sum of the log probabilities of its tokens.
TEST(QuantizationGate, PredictsTheTokensOfTexts) {
  const test::TemporaryFolder folder;
  importer::import_model(references / "llama2", folder.path() / "made");
  const std::vector<std::vector<std::uint32_t>> parts{{2, 5, 6, 7}, {2, 9, 11}, {2, 13, 11}};
  Decoder decoder(Runtime(folder.path() / "made/model.onnx"), parts.size() + 1);
  const TextPredictions predictions = predict(decoder, parts);
  ASSERT_EQ(predictions.most_probable.size(), 3 + 2 + 2);
  double expected = 0;
  for (const auto& part : parts) {
    for (std::size_t i = 0; i + 1 < part.size(); ++i) {
      const Decoder::Row row{0, std::span(part).first(i + 1)};
      const Tensor logits = decoder.run(0, {&row, 1});
      double sum = 0;
      for (const float logit : logits.as<float>()) sum += std::exp(logit);
      expected += static_cast<double>(logits.as<float>()[part[i + 1]]) - std::log(sum);
    }
  }
  EXPECT_NEAR(predictions.log_probability, expected, 1e-3);
  EXPECT_NEAR(predictions.perplexity(), std::exp(-expected / 7), 1e-3 * std::exp(-expected / 7));
}

TEST(QuantizationGate, AdvisesWhereFloatWeightsAreTooManyBytes) {
  struct Case {
    std::uint64_t weight_bytes, memory_bytes;
    const char* line;
  };

  constexpr std::uint64_t gigabyte = 1'000'000'000;
  constexpr Case cases[] = {
      {6 * gigabyte, 24 * gigabyte, ""},
      {12 * gigabyte, 24 * gigabyte, "for each token, at 20 GB/s 1.7 tokens/s; quantize int4 makes about 1.9 GB"},
      {12 * gigabyte + 64, 24 * gigabyte, "are 12.0 GB, more than half of the memory (24.0 GB); quantize int4 makes"},
      {6'666'666'666, 1000 * gigabyte, ""},
      {6'700'000'000, 1000 * gigabyte, "at 20 GB/s 3.0 tokens/s"},
      {0, 0, ""},
      {1, 0, "more than half of the memory (0 B)"},
  };
  for (const Case& one : cases) {
    const std::string line = to_string(quantization_advice(one.weight_bytes, one.memory_bytes));
    EXPECT_EQ(line.empty(), std::string_view(one.line).empty()) << line;
    EXPECT_THAT(line, HasSubstr(one.line));
  }
}

TEST(QuantizationGate, ComparesAndRefuses) {
  const TextPredictions original{.most_probable = {1, 2, 3, 4}, .log_probability = -4 * std::log(10.0)};
  const TextPredictions quantized{.most_probable = {1, 2, 3, 9}, .log_probability = -4 * std::log(14.0)};
  QuantizationAgreement agreement = compare(original, quantized);
  agreement.precision = "int4";
  agreement.what = "a text";
  EXPECT_EQ(agreement.positions, 4);
  EXPECT_DOUBLE_EQ(agreement.same_token, 0.75);
  EXPECT_NEAR(agreement.ratio(), 1.4, 1e-9);
  EXPECT_NO_THROW(require_agreement(agreement, 1.5));
  EXPECT_EQ(report_of(agreement),
            "int4: perplexity 14.00, 10.00 with the weights of the file (1.400 times); the same most probable token at "
            "75.0 % of 4 positions of a text");
  try {
    require_agreement(agreement, 1.3);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr("int4 is refused: the perplexity of a text is 14.00, and 10.00 with the "
                                           "weights of the file: 1.400 times; accepted: up to 1.3 times "
                                           "(max_perplexity_ratio)"));
  }
  // Without numbers.
  agreement =
      compare(original, {.most_probable = {0, 0, 0, 0}, .log_probability = std::numeric_limits<double>::quiet_NaN()});
  EXPECT_THROW(require_agreement(agreement, 1000), Error);
}

}  // namespace
}  // namespace gpux::generation
