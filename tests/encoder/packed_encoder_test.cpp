#include "encoder/packed_encoder.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "small_encoder.h"

namespace gpux_cpu::encoder {
namespace {

std::string packed(const PackedEncoder& encoder) {
  std::ostringstream out;
  write(encoder, out);
  return out.str();
}

PackedEncoder small(Precision precision) {
  return {.digest = {1, 2},
          .precision = precision,
          .has_attention_mask = true,
          .has_token_type_ids = true,
          .has_vectors = true,
          .has_hidden_states = false,
          .weights = small_model(precision)};
}

// As a mapped file lies.
PackedEncoder read_copy(const std::string& text) {
  constexpr std::align_val_t aligned{64};
  void* const data = ::operator new(text.size() + 1, aligned);
  const std::shared_ptr<const void> keeper(data, [](void* copied) { ::operator delete(copied, aligned); });
  std::memcpy(data, text.data(), text.size());
  return read({static_cast<const std::byte*>(data), text.size()}, keeper);
}

std::vector<float> vectors_of(Weights weights) {
  const Encoder encoder(std::move(weights), kernels());
  const Texts texts(8);
  std::vector<float> vectors(8 * hidden_size);
  const auto one_by_one = [](std::size_t parts, const std::function<void(std::size_t)>& work) {
    for (std::size_t part = 0; part < parts; ++part) work(part);
  };
  encoder.run(texts.batch(0, 8), 1, one_by_one, {.vectors = vectors.data(), .hidden_states = nullptr});
  return vectors;
}

class Packed : public testing::TestWithParam<Precision> {};

TEST_P(Packed, GivesTheSameBits) {
  const PackedEncoder encoder = small(GetParam());
  PackedEncoder again = read_copy(packed(encoder));
  EXPECT_EQ(again.digest, encoder.digest);
  EXPECT_EQ(again.precision, GetParam());
  EXPECT_TRUE(again.has_attention_mask && again.has_token_type_ids && again.has_vectors && !again.has_hidden_states);
  EXPECT_EQ(packed(again), packed(encoder));
  EXPECT_EQ(vectors_of(std::move(again.weights)), vectors_of(encoder.weights));
}

TEST_P(Packed, IsRefusedWhereItIsTornAnywhere) {
  const std::string whole = packed(small(GetParam()));
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    EXPECT_THROW((void)read_copy(whole.substr(0, size)), std::runtime_error) << size;
  }
  EXPECT_THROW((void)read_copy(whole + "x"), std::runtime_error);
}

// Whatever bytes come out otherwise: it is refused, or computes something within its own memory.
TEST_P(Packed, DoesNoHarmWhereItIsDamaged) {
  const std::string whole = packed(small(GetParam()));
  std::size_t refused = 0, beyond = 0;
  for (std::size_t position = 0; position < whole.size(); position += position < 400 ? 1 : 397) {
    std::string damaged = whole;
    damaged[position] = static_cast<char>(damaged[position] ^ 0x55);
    try {
      (void)vectors_of(read_copy(damaged).weights);
    } catch (const std::runtime_error&) {
      ++refused;
    } catch (const std::out_of_range&) {
      ++beyond;  // a vocabulary or a table of positions is shorter now
    }
  }
  EXPECT_GT(refused, 20U);
  EXPECT_LT(beyond, refused);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Packed,
                         testing::Values(Precision::fp32, Precision::bf16, Precision::int8, Precision::int8_bf16));

TEST(Packed, HoldsWhatOnlySomeEncodersHave) {
  PackedEncoder encoder = small(Precision::fp32);
  encoder.weights.position_ids = PositionIds::from_pad_token;
  encoder.weights.pad_token_id = 1;
  encoder.weights.max_relative_positions = 3;
  encoder.weights.relative_bias = std::vector<float>(num_heads * 5, 0.5F);
  encoder.weights.masked_keys = {.score = -3, .replaces = true, .zero_if_all_masked = true};
  encoder.weights.mask_from_front = true;
  encoder.weights.token_type_embeddings = {};
  const Weights again = read_copy(packed(encoder)).weights;
  EXPECT_EQ(again.pad_token_id, 1);
  EXPECT_EQ(again.max_relative_positions, 3U);
  EXPECT_EQ(again.relative_bias.size(), num_heads * 5);
  EXPECT_EQ(again.masked_keys, encoder.weights.masked_keys);
  EXPECT_TRUE(again.mask_from_front && again.token_type_embeddings.empty());
}

}  // namespace
}  // namespace gpux_cpu::encoder
