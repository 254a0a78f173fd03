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

namespace gpux_encoder {
namespace {

std::string packed(const PackedEncoder& encoder) {
  std::ostringstream out;
  write(encoder, out);
  return out.str();
}

PackedEncoder small(Precision precision) {
  return {.digest = {1, 2},
          .precision = precision,
          .takes_mask = true,
          .takes_types = true,
          .gives_vectors = true,
          .gives_hidden = false,
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
  std::vector<float> vectors(8 * hidden);
  const auto one_by_one = [](std::size_t parts, const std::function<void(std::size_t)>& work) {
    for (std::size_t part = 0; part < parts; ++part) work(part);
  };
  encoder.run(texts.batch(0, 8), 1, one_by_one, {.vectors = vectors.data(), .hidden = nullptr});
  return vectors;
}

class Packed : public testing::TestWithParam<Precision> {};

TEST_P(Packed, GivesTheSameBits) {
  const PackedEncoder encoder = small(GetParam());
  PackedEncoder again = read_copy(packed(encoder));
  EXPECT_EQ(again.digest, encoder.digest);
  EXPECT_EQ(again.precision, GetParam());
  EXPECT_TRUE(again.takes_mask && again.takes_types && again.gives_vectors && !again.gives_hidden);
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
  for (std::size_t place = 0; place < whole.size(); place += place < 400 ? 1 : 397) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
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
  encoder.weights.padding = 1;
  encoder.weights.relative_places = 3;
  encoder.weights.relative = std::vector<float>(heads * 3 * 3, 0.5F);
  encoder.weights.hidden_keys = {.score = -3, .replaces = true, .nothing_if_all = true};
  encoder.weights.mask_from_front = true;
  encoder.weights.types = {};
  const Weights again = read_copy(packed(encoder)).weights;
  EXPECT_EQ(again.padding, 1);
  EXPECT_EQ(again.relative_places, 3U);
  EXPECT_EQ(again.relative.size(), heads * 3 * 3);
  EXPECT_EQ(again.hidden_keys, encoder.weights.hidden_keys);
  EXPECT_TRUE(again.mask_from_front && again.types.empty());
}

}  // namespace
}  // namespace gpux_encoder
