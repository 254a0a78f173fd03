// What the architectures of today have that BERT has not: long texts, equal bits, files.
#include "encoder/architectures.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/runnable_kernels.h"
#include "cpu/side_by_side.h"
#include "encoder/packed_encoder.h"

namespace gpux_cpu::encoder {
namespace {

constexpr std::size_t max_length = 24, vocabulary_size = 40;

/// Texts of their own lengths, padded on the right.
struct Padded {
  Padded(const std::vector<std::size_t>& lengths, std::size_t padded_to) : count(lengths.size()), length(padded_to) {
    std::mt19937_64 engine(3);
    for (const std::size_t own : lengths) {
      for (std::size_t position = 0; position < length; ++position) {
        ids.push_back(position < own ? static_cast<std::int64_t>(2 + engine() % (vocabulary_size - 2)) : 1);
        mask.push_back(position < own ? 1 : 0);
        positions.push_back(static_cast<std::int64_t>(position % max_length));
      }
    }
  }

  [[nodiscard]] Batch all() const { return {count, length, ids.data(), mask.data(), nullptr, positions.data()}; }

  [[nodiscard]] Batch alone(std::size_t text, std::size_t own_length) const {
    const std::size_t first = text * length;
    return {1, own_length, ids.data() + first, mask.data() + first, nullptr, positions.data() + first};
  }

  std::size_t count, length;
  std::vector<std::int64_t> ids, mask, positions;
};

std::vector<float> vectors_of(const Encoder& encoder, const Batch& batch, std::size_t threads) {
  std::vector<float> vectors(batch.batch_size * vector_size(encoder.weights()));
  encoder.run(batch, threads, side_by_side, {vectors.data(), nullptr});
  return vectors;
}

void expect_equal_bits(const Encoder& encoder, const std::vector<std::size_t>& lengths, std::size_t padded_to) {
  const Padded texts(lengths, padded_to);
  const std::vector<float> together = vectors_of(encoder, texts.all(), 1);
  const std::size_t size = vector_size(encoder.weights());
  for (const std::size_t threads : {1, 2, 5}) EXPECT_EQ(vectors_of(encoder, texts.all(), threads), together) << threads;
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    const auto first = together.begin() + static_cast<std::ptrdiff_t>(text * size);
    for (const std::size_t threads : {1, 3}) {
      EXPECT_EQ(vectors_of(encoder, texts.alone(text, lengths[text]), threads),
                std::vector<float>(first, first + static_cast<std::ptrdiff_t>(size)))
          << text << " with " << threads << " threads";
    }
  }
  std::vector<float> vectors(together.size()), states(lengths.size() * padded_to * encoder.weights().hidden_size);
  encoder.run(texts.all(), 2, side_by_side, {vectors.data(), states.data()});
  EXPECT_EQ(vectors, together) << "with hidden states";
}

std::vector<Architecture> all_architectures() {
  std::vector<Architecture> all = architectures();
  std::mt19937_64 engine(11);
  for (int i = 0; i < 12; ++i) all.push_back(random_architecture(engine));
  return all;
}

class ArchitecturesIn : public testing::TestWithParam<Precision> {};

TEST_P(ArchitecturesIn, GiveATextTheSameBitsWhateverItIsRunWith) {
  std::mt19937_64 engine(5);
  for (const Architecture& architecture : all_architectures()) {
    const PlainEncoder plain = made_encoder(architecture, engine);
    for (const Kernels* kernels : runnable()) {
      SCOPED_TRACE(architecture.name + " " + std::string(kernels->name));
      expect_equal_bits(Encoder(plain.weights(GetParam()), *kernels), {3, 23, 1, 16, 9, 22, 17}, 23);
    }
  }
}

std::string packed(const PackedEncoder& encoder) {
  std::ostringstream out;
  write(encoder, out);
  return out.str();
}

PackedEncoder read_copy(const std::string& text) {
  constexpr std::align_val_t aligned{64};
  void* const data = ::operator new(text.size() + 1, aligned);
  const std::shared_ptr<const void> keeper(data, [](void* copied) { ::operator delete(copied, aligned); });
  std::memcpy(data, text.data(), text.size());
  return read({static_cast<const std::byte*>(data), text.size()}, keeper);
}

PackedEncoder packed_encoder(const PlainEncoder& plain, Precision precision) {
  return {.precision = precision,
          .has_attention_mask = true,
          .has_position_ids = plain.settings.position_ids == PositionIds::input,
          .has_vectors = true,
          .weights = plain.weights(precision)};
}

TEST_P(ArchitecturesIn, ComeBackFromAFile) {
  std::mt19937_64 engine(6);
  const Padded texts({3, 23, 16}, 23);
  for (const Architecture& architecture : all_architectures()) {
    SCOPED_TRACE(architecture.name);
    const PackedEncoder encoder = packed_encoder(made_encoder(architecture, engine), GetParam());
    PackedEncoder again = read_copy(packed(encoder));
    EXPECT_EQ(packed(again), packed(encoder));
    EXPECT_EQ(vectors_of(Encoder(std::move(again.weights), kernels()), texts.all(), 1),
              vectors_of(Encoder(encoder.weights, kernels()), texts.all(), 1));
  }
}

// It is refused, or computes something within its own memory.
TEST_P(ArchitecturesIn, DoNoHarmWhereTheirFileIsDamaged) {
  std::mt19937_64 engine(7);
  std::size_t refused = 0, all = 0;
  const Padded texts({5, 23}, 23);
  for (const Architecture& architecture : architectures()) {
    const std::string whole = packed(packed_encoder(made_encoder(architecture, engine), GetParam()));
    for (std::size_t position = 0; position < whole.size(); position += position % 64 < 16 ? 1 : 61, ++all) {
      if (position > 2000 && position % 7 != 0) continue;
      std::string damaged = whole;
      damaged[position] = static_cast<char>(damaged[position] ^ (position % 2 == 0 ? 0x55 : 0x02));
      try {
        const Encoder encoder(std::move(read_copy(damaged).weights), kernels());
        // A vocabulary may be of any size now.
        if (vector_size(encoder.weights()) <= vocabulary_size) (void)vectors_of(encoder, texts.all(), 1);
      } catch (const std::runtime_error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100U);
  EXPECT_LT(refused, all);
}

INSTANTIATE_TEST_SUITE_P(Architectures, ArchitecturesIn,
                         testing::Values(Precision::fp32, Precision::bf16, Precision::int8, Precision::int8_bf16));

TEST(Architectures, HaveSharedWeightsInAFileOnce) {
  std::mt19937_64 engine(8);
  PackedEncoder encoder = packed_encoder(made_encoder(architectures().front(), engine), Precision::int8);
  encoder.weights.layers.resize(1);
  const std::size_t of_one = packed(encoder).size();
  encoder.weights.layers.resize(8, encoder.weights.layers.front());
  const std::string of_eight = packed(encoder);
  EXPECT_LT(of_eight.size(), of_one + 7 * 1000);
  const Weights again = read_copy(of_eight).weights;
  EXPECT_EQ(again.layers.front().relative_keys.data(), again.layers.back().relative_keys.data());
  EXPECT_EQ(again.layers.front().feed_forward_input_norm->gamma.data(),
            again.layers.back().feed_forward_input_norm->gamma.data());
}

/// Architectures with texts of thousands of tokens, one layer each.
std::vector<Architecture> long_architectures() {
  std::vector<Architecture> found = architectures();
  std::erase_if(found, [](const Architecture& one) { return one.name == "ELECTRA" || one.name == "SPLADE"; });
  for (Architecture& architecture : found) {
    architecture.sizes.hidden_size = 16;
    architecture.sizes.num_heads = 2;
    architecture.num_kv_heads = 1;
    architecture.head_size = 8;
    architecture.rotary_dimensions = std::min<std::size_t>(architecture.rotary_dimensions, 8);
    architecture.embedding_size = 16;
    architecture.sizes.intermediate_size = 20;
    architecture.sizes.layers = 1;
    architecture.sizes.positions = 2400;
    if (architecture.window) architecture.window = Window{70, 600};
  }
  return found;
}

// Parts of keys, chunks of queries and blocks of rows.
TEST(Architectures, ComputeLongTextsAsThePlainEncoder) {
  std::mt19937_64 engine(9);
  const Padded texts({2301}, 2303);
  for (const Architecture& architecture : long_architectures()) {
    const PlainEncoder plain = made_encoder(architecture, engine);
    const PlainEncoder::Results expected = plain.run(texts.all());
    for (const auto& [precision, allowed] : {std::pair{Precision::fp32, 5e-4}, std::pair{Precision::bf16, 0.1}}) {
      SCOPED_TRACE(architecture.name);
      const Encoder encoder(plain.weights(precision), kernels());
      std::vector<float> vectors(expected.vectors.size()), states(expected.hidden_states.size());
      encoder.run(texts.all(), 2, side_by_side, {vectors.data(), states.data()});
      for (std::size_t i = 0; i < states.size(); ++i) {
        ASSERT_NEAR(states[i], expected.hidden_states[i], allowed) << "row " << i / 16;
      }
      for (std::size_t i = 0; i < vectors.size(); ++i) ASSERT_NEAR(vectors[i], expected.vectors[i], allowed);
    }
  }
}

TEST(Architectures, GiveALongTextTheSameBits) {
  std::mt19937_64 engine(10);
  for (const Architecture& architecture : long_architectures()) {
    const PlainEncoder plain = made_encoder(architecture, engine);
    for (const Precision precision : {Precision::fp32, Precision::int8}) {
      SCOPED_TRACE(architecture.name);
      expect_equal_bits(Encoder(plain.weights(precision), kernels()), {600, 2301, 5}, 2320);
    }
  }
}

TEST(Architectures, StopInALongText) {
  std::mt19937_64 engine(10);
  const Padded texts({2301}, 2301);
  const Encoder encoder(made_encoder(long_architectures().front(), engine).weights(Precision::fp32), kernels());
  std::vector<float> vectors(16);
  const std::atomic<bool> stopped = true;
  const auto one_by_one = [](std::size_t parts, const std::function<void(std::size_t)>& work) {
    for (std::size_t part = 0; part < parts; ++part) work(part);
  };
  EXPECT_THROW(encoder.run(texts.all(), 2, one_by_one, {vectors.data(), nullptr}, &stopped), Stopped);
  EXPECT_NO_THROW(encoder.run(texts.all(), 2, one_by_one, {vectors.data(), nullptr}));
}

TEST(Architectures, RefuseTextsLongerThanTheirTables) {
  std::mt19937_64 engine(12);
  for (const Architecture& architecture : architectures()) {
    SCOPED_TRACE(architecture.name);
    const Encoder encoder(made_encoder(architecture, engine).weights(Precision::fp32), kernels());
    const bool has_limit = architecture.name != "JinaBERT" && architecture.name != "ELECTRA";
    const Padded longer({max_length + 1}, max_length + 1);
    if (has_limit) {
      EXPECT_THROW((void)vectors_of(encoder, longer.all(), 1), InvalidInput);
    } else {
      EXPECT_NO_THROW((void)vectors_of(encoder, longer.all(), 1));
    }
    // Positions that count the mask may have any number of masked tokens.
    const Padded padded({max_length}, max_length + 1);
    if (architecture.position_ids == PositionIds::from_mask) {
      EXPECT_NO_THROW((void)vectors_of(encoder, padded.all(), 1));
    }
  }
}

// The angles are those of float32 frequencies and positions, as transformers makes them.
TEST(RotaryTable, IsExactToFloat32) {
  const RotaryTable table = make_rotary_table(std::vector<float>{1, 0.7F, 1e-3F}, 30000, false, 1.25);
  EXPECT_EQ(table.dimensions, 6U);
  ASSERT_EQ(table.cosines.size(), 90000U);
  const double angle = static_cast<double>(29999.0F * 0.7F);
  EXPECT_EQ(table.cosines.data()[29999 * 3 + 1], static_cast<float>(std::cos(angle) * 1.25));
  EXPECT_EQ(table.sines.data()[29999 * 3 + 1], static_cast<float>(std::sin(angle) * 1.25));
  EXPECT_EQ(table.cosines.data()[0], 1.25F);
}

}  // namespace
}  // namespace gpux_cpu::encoder
