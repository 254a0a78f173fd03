// Runs of any size, mask and choice of results have the answers of the plain encoder.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "encoder/checked_run.h"

namespace gpux_cpu::encoder {
namespace {

struct Named {
  const char* name;
  std::uint8_t results;
  std::uint8_t texts, length;
  std::vector<std::uint8_t> masks;  ///< of each text; the last one of all that follow
};

// The bytes of that batch for one precision and encoder, with some ids.
std::vector<std::uint8_t> bytes_of(const Named& run, std::uint8_t precision, std::uint8_t encoder,
                                   std::uint8_t threads) {
  const auto bits =
      static_cast<std::uint8_t>(run.results | has_mask | has_types | (threads % 2 == 0 ? has_real_threads : 0));
  std::vector<std::uint8_t> bytes{precision, 0,         encoder,   static_cast<std::uint8_t>(threads - 1),
                                  bits,      run.texts, run.length};
  for (std::size_t text = 0; text < run.texts; ++text) {
    bytes.push_back(run.masks[std::min(text, run.masks.size() - 1)]);
    for (std::size_t place = 0; place < run.length; ++place) {
      bytes.push_back(static_cast<std::uint8_t>((text * 31 + place * 7) % 200));
    }
  }
  return bytes;
}

TEST(EncoderRuns, AnswerWhereThereIsNothingToCompute) {
  const std::vector<Named> runs{
      {"no texts", wants_vectors | wants_hidden, 0, 16, {all_count}},
      {"no texts without tokens", wants_vectors, 0, 0, {all_count}},
      {"texts without tokens", wants_vectors, 3, 0, {all_count}},
      {"texts without tokens, both results", wants_vectors | wants_hidden, 3, 0, {all_count}},
      {"no token counts, vectors", wants_vectors, 4, 9, {none_counts}},
      {"no token counts, hidden states", wants_hidden, 4, 9, {none_counts}},
      {"no token counts in one text", wants_vectors, 1, 24, {none_counts}},
      {"no token of the first text counts", wants_vectors, 9, 20, {none_counts, all_count}},
      {"the last chunk has no token that counts",
       wants_vectors,
       16,
       24,
       {all_count, all_count, all_count, none_counts}},
      {"one token of the last text counts", wants_vectors, 16, 24, {none_counts, none_counts, none_counts, only_last}},
      {"no result is wanted", 0, 4, 9, {all_count}},
  };
  for (const Named& run : runs) {
    for (std::uint8_t precision = 0; precision < 4; ++precision) {
      for (std::uint8_t encoder = 0; encoder < 19; ++encoder) {
        for (const std::uint8_t threads : {1, 2, 8}) {
          EXPECT_EQ(checked_run(bytes_of(run, precision, encoder, threads)), "") << run.name;
        }
      }
    }
  }
}

TEST(EncoderRuns, OfAllKindsAnswerAsThePlainEncoder) {
  constexpr std::size_t runs = 4000;
  std::mt19937 engine(20261123);
  for (std::size_t run = 0; run < runs; ++run) {
    std::vector<std::uint8_t> bytes(7 + engine() % 300);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine() % 250);
    ASSERT_EQ(checked_run(bytes), "") << "run " << run;
  }
}

}  // namespace
}  // namespace gpux_cpu::encoder
