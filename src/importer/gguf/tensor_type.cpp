#include "importer/gguf/tensor_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/small_float.h"

namespace gpux::importer::gguf {
namespace {

constexpr std::size_t super_block = 256;  // elements of a block of the K types

constexpr CodeFormat signed_codes(std::size_t group, std::uint32_t bits) {
  return {.group_elements = group, .bits = bits, .zero = static_cast<std::uint8_t>(1U << (bits - 1))};
}

constexpr CodeFormat with_minimum(std::size_t group, std::uint32_t bits) {
  return {.group_elements = group, .bits = bits, .zero = 0, .has_minimum = true};
}

// ggml's numbers, sizes of blocks and names (ggml/src/ggml.c, type_traits).
constexpr std::array types{
    TypeFacts{0, "F32", 1, 4, true},
    TypeFacts{1, "F16", 1, 2, true},
    TypeFacts{2, "Q4_0", 32, 18, true, signed_codes(32, 4)},
    TypeFacts{3, "Q4_1", 32, 20, true, with_minimum(32, 4)},
    TypeFacts{6, "Q5_0", 32, 22, true, signed_codes(32, 8)},
    TypeFacts{7, "Q5_1", 32, 24, true, with_minimum(32, 8)},
    TypeFacts{8, "Q8_0", 32, 34, true, signed_codes(32, 8)},
    TypeFacts{9, "Q8_1", 32, 36},
    TypeFacts{10, "Q2_K", super_block, 84, true, with_minimum(16, 4)},
    TypeFacts{11, "Q3_K", super_block, 110, true, signed_codes(16, 4)},
    TypeFacts{12, "Q4_K", super_block, 144, true, with_minimum(32, 4)},
    TypeFacts{13, "Q5_K", super_block, 176, true, with_minimum(32, 8)},
    TypeFacts{14, "Q6_K", super_block, 210, true, signed_codes(16, 8)},
    TypeFacts{15, "Q8_K", super_block, 292},
    TypeFacts{16, "IQ2_XXS", super_block, 66},
    TypeFacts{17, "IQ2_XS", super_block, 74},
    TypeFacts{18, "IQ3_XXS", super_block, 98},
    TypeFacts{19, "IQ1_S", super_block, 50},
    TypeFacts{20, "IQ4_NL", 32, 18, true, signed_codes(32, 8)},
    TypeFacts{21, "IQ3_S", super_block, 110},
    TypeFacts{22, "IQ2_S", super_block, 82},
    TypeFacts{23, "IQ4_XS", super_block, 136, true, signed_codes(32, 8)},
    TypeFacts{24, "I8", 1, 1},
    TypeFacts{25, "I16", 1, 2},
    TypeFacts{26, "I32", 1, 4},
    TypeFacts{27, "I64", 1, 8},
    TypeFacts{28, "F64", 1, 8, true},
    TypeFacts{29, "IQ1_M", super_block, 56},
    TypeFacts{30, "BF16", 1, 2, true},
    TypeFacts{34, "TQ1_0", super_block, 54},
    TypeFacts{35, "TQ2_0", super_block, 66},
    TypeFacts{39, "MXFP4", 32, 17, true, signed_codes(32, 8)},
    TypeFacts{40, "NVFP4", 64, 36},
    TypeFacts{41, "Q1_0", 128, 18},
};

// The values that the codes of the IQ4 types stand for.
constexpr std::array<std::int8_t, 16> iq4_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};

// Twice those of a float4e2m1 (OCP Microscaling Formats 1.0): so they are whole.
constexpr std::array<std::int8_t, 16> mxfp4_values{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

const std::array<float, 65536>& half_values() {
  static const auto table = [] {
    std::array<float, 65536> values{};
    for (std::size_t bits = 0; bits < values.size(); ++bits) {
      values[bits] = static_cast<float>(small_float_value(ElementType::float16, static_cast<std::uint16_t>(bits)));
    }
    return values;
  }();
  return table;
}

template <typename T>
T load(const std::uint8_t* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// The blocks of a tensor, and where their codes go.
class CodeReader {
 public:
  CodeReader(std::span<std::uint8_t> codes, std::span<float> scales, std::span<float> minimums)
      : codes_(codes.data()), scales_(scales.data()), minimums_(minimums.data()), halves_(half_values()) {}

  void q4_0(const std::uint8_t* block) {
    *scales_++ = half(block);
    nibbles(block + 2);
  }

  void q4_1(const std::uint8_t* block) {
    *scales_++ = half(block);
    *minimums_++ = -half(block + 2);
    nibbles(block + 4);
  }

  void q5_0(const std::uint8_t* block) {
    constexpr int to_zero = 128 - 16;
    *scales_++ = half(block);
    five_bits(block + 2, to_zero);
  }

  void q5_1(const std::uint8_t* block) {
    *scales_++ = half(block);
    *minimums_++ = -half(block + 2);
    five_bits(block + 4, 0);
  }

  void q8_0(const std::uint8_t* block) {
    *scales_++ = half(block);
    for (int i = 0; i < 32; ++i) *codes_++ = static_cast<std::uint8_t>(block[2 + i] ^ 0x80U);
  }

  void q2_k(const std::uint8_t* block) {
    const std::uint8_t *const scales = block, *const low = block + 16;
    const float scale = half(block + 80), minimum = half(block + 82);
    for (int i = 0; i < 16; ++i) {
      *scales_++ = scale * static_cast<float>(scales[i] & 0xfU);
      *minimums_++ = minimum * static_cast<float>(scales[i] >> 4U);
    }
    two_bits(low, [](int, int, unsigned code) { return code; });
  }

  void q3_k(const std::uint8_t* block) {
    const std::uint8_t *const high = block, *const low = block + 32, *const packed = block + 96;
    const float scale = half(block + 108);
    for (int i = 0; i < 16; ++i) {
      // Six bits of each: the low four of two scales share a byte, the high two of four share another.
      const unsigned low_bits = i < 8 ? packed[i] & 0xfU : static_cast<unsigned>(packed[i - 8]) >> 4U;
      const unsigned high_bits = (static_cast<unsigned>(packed[8 + i % 4]) >> static_cast<unsigned>(2 * (i / 4))) & 3U;
      *scales_++ = scale * static_cast<float>(static_cast<int>(low_bits | (high_bits << 4U)) - 32);
    }
    // From 0 to 7, which mean -4 to 3; the zero is 8.
    two_bits(low, [high](int group, int i, unsigned code) {
      return code + (((static_cast<unsigned>(high[i]) >> static_cast<unsigned>(group)) & 1U) << 2U) + 4U;
    });
  }

  void q4_k(const std::uint8_t* block) {
    scales_of_k(block);
    const std::uint8_t* low = block + 16;
    for (int pair = 0; pair < 4; ++pair, low += 32) {
      for (int i = 0; i < 32; ++i) *codes_++ = low[i] & 0xfU;
      for (int i = 0; i < 32; ++i) *codes_++ = low[i] >> 4U;
    }
  }

  void q5_k(const std::uint8_t* block) {
    scales_of_k(block);
    const std::uint8_t *const high = block + 16, *low = block + 48;
    const auto high_bit = [high](int i, int group) {
      return ((static_cast<unsigned>(high[i]) >> static_cast<unsigned>(group)) & 1U) << 4U;
    };
    for (int pair = 0; pair < 4; ++pair, low += 32) {
      for (int i = 0; i < 32; ++i) *codes_++ = static_cast<std::uint8_t>((low[i] & 0xfU) | high_bit(i, 2 * pair));
      for (int i = 0; i < 32; ++i) *codes_++ = static_cast<std::uint8_t>((low[i] >> 4U) | high_bit(i, 2 * pair + 1));
    }
  }

  void q6_k(const std::uint8_t* block) {
    const float scale = half(block + 208);
    for (int i = 0; i < 16; ++i) *scales_++ = scale * static_cast<float>(static_cast<std::int8_t>(block[192 + i]));
    for (int part = 0; part < 2; ++part) {
      const std::uint8_t *const low = block + 64 * part, *const high = block + 128 + 32 * part;
      for (unsigned quarter = 0; quarter < 4; ++quarter) {
        for (unsigned i = 0; i < 32; ++i) {
          const unsigned nibbles = low[i + 32 * (quarter % 2)];
          const unsigned low_bits = quarter < 2 ? nibbles & 0xfU : nibbles >> 4U;
          const unsigned high_bits = (static_cast<unsigned>(high[i]) >> (2 * quarter)) & 3U;
          *codes_++ = static_cast<std::uint8_t>((low_bits | (high_bits << 4U)) + 128 - 32);
        }
      }
    }
  }

  void iq4_nl(const std::uint8_t* block) {
    *scales_++ = half(block);
    coded(iq4_values, block + 2);
  }

  void iq4_xs(const std::uint8_t* block) {
    const float scale = half(block);
    const unsigned high = load<std::uint16_t>(block + 2);
    for (unsigned group = 0; group < 8; ++group) {
      const unsigned low_bits = (static_cast<unsigned>(block[4 + group / 2]) >> (4 * (group % 2))) & 0xfU;
      const unsigned high_bits = (high >> (2 * group)) & 3U;
      *scales_++ = scale * static_cast<float>(static_cast<int>(low_bits | (high_bits << 4U)) - 32);
      coded(iq4_values, block + 8 + std::size_t{16} * group);
    }
  }

  // The scale is a power of two, its exponent plus 127; the half of it makes up for the values.
  void mxfp4(const std::uint8_t* block) {
    const int exponent = block[0];
    *scales_++ = std::ldexp(1.0F, exponent - 128);
    coded(mxfp4_values, block + 1);
  }

 private:
  [[nodiscard]] float half(const std::uint8_t* bytes) const { return halves_[load<std::uint16_t>(bytes)]; }

  // Byte i has elements i and i + 16.
  void nibbles(const std::uint8_t* bytes) {
    for (int i = 0; i < 16; ++i) *codes_++ = bytes[i] & 0xfU;
    for (int i = 0; i < 16; ++i) *codes_++ = bytes[i] >> 4U;
  }

  void five_bits(const std::uint8_t* bytes, int added) {
    const auto high = load<std::uint32_t>(bytes);
    const std::uint8_t* const low = bytes + 4;
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned low_bits = i < 16 ? low[i] & 0xfU : static_cast<unsigned>(low[i - 16]) >> 4U;
      *codes_++ = static_cast<std::uint8_t>(static_cast<int>(low_bits | (((high >> i) & 1U) << 4U)) + added);
    }
  }

  // Of the eight groups of 32, four share 32 bytes. `code_of(group, i, low bits)` gives the code of element i.
  template <typename CodeOf>
  void two_bits(const std::uint8_t* bytes, CodeOf code_of) {
    for (int group = 0; group < 8; ++group) {
      const std::uint8_t* const low = bytes + 32 * (group / 4);
      const auto shift = static_cast<unsigned>(2 * (group % 4));
      for (int i = 0; i < 32; ++i) {
        *codes_++ = static_cast<std::uint8_t>(code_of(group, i, (static_cast<unsigned>(low[i]) >> shift) & 3U));
      }
    }
  }

  // Eight scales and eight minimums of six bits in twelve bytes.
  void scales_of_k(const std::uint8_t* block) {
    const float scale = half(block), minimum = half(block + 2);
    const std::uint8_t* const packed = block + 4;
    for (int i = 0; i < 8; ++i) {
      unsigned of_scale = packed[i] & 63U, of_minimum = packed[i + 4] & 63U;
      if (i >= 4) {
        of_scale = (packed[i + 4] & 0xfU) | ((static_cast<unsigned>(packed[i - 4]) >> 6U) << 4U);
        of_minimum = (static_cast<unsigned>(packed[i + 4]) >> 4U) | ((static_cast<unsigned>(packed[i]) >> 6U) << 4U);
      }
      *scales_++ = scale * static_cast<float>(of_scale);
      *minimums_++ = minimum * static_cast<float>(of_minimum);
    }
  }

  void coded(const std::array<std::int8_t, 16>& values, const std::uint8_t* bytes) {
    const auto code_of = [&](unsigned nibble) { return static_cast<std::uint8_t>(values[nibble] + 128); };
    for (int i = 0; i < 16; ++i) *codes_++ = code_of(bytes[i] & 0xfU);
    for (int i = 0; i < 16; ++i) *codes_++ = code_of(bytes[i] >> 4U);
  }

  std::uint8_t* codes_;
  float *scales_, *minimums_;
  const std::array<float, 65536>& halves_;
};

using ReadBlock = void (CodeReader::*)(const std::uint8_t*);

ReadBlock reader_of(TensorType type) noexcept {
  switch (type) {
    case TensorType::q4_0:
      return &CodeReader::q4_0;
    case TensorType::q4_1:
      return &CodeReader::q4_1;
    case TensorType::q5_0:
      return &CodeReader::q5_0;
    case TensorType::q5_1:
      return &CodeReader::q5_1;
    case TensorType::q8_0:
      return &CodeReader::q8_0;
    case TensorType::q2_k:
      return &CodeReader::q2_k;
    case TensorType::q3_k:
      return &CodeReader::q3_k;
    case TensorType::q4_k:
      return &CodeReader::q4_k;
    case TensorType::q5_k:
      return &CodeReader::q5_k;
    case TensorType::q6_k:
      return &CodeReader::q6_k;
    case TensorType::iq4_nl:
      return &CodeReader::iq4_nl;
    case TensorType::iq4_xs:
      return &CodeReader::iq4_xs;
    case TensorType::mxfp4:
      return &CodeReader::mxfp4;
    case TensorType::f32:
    case TensorType::f16:
    case TensorType::f64:
    case TensorType::bf16:
      break;
  }
  return nullptr;
}

const std::uint8_t* bytes_of(std::span<const std::byte> blocks) noexcept {
  return reinterpret_cast<const std::uint8_t*>(blocks.data());
}

// One block at a time, so that the codes stay in the cache.
void decode_elements(TensorType type, std::span<const std::byte> blocks, std::span<float> elements) {
  const TypeFacts& facts = facts_of(type);
  const CodeFormat& format = facts.codes;
  std::array<std::uint8_t, super_block> codes{};
  std::array<float, super_block / 16> scales{}, minimums{};
  float* out = elements.data();
  for (; !blocks.empty(); blocks = blocks.subspan(facts.block_bytes)) {
    read_codes(type, blocks.first(facts.block_bytes), std::span(codes).first(facts.block_elements), scales, minimums);
    for (std::size_t i = 0; i < facts.block_elements; ++i) {
      const std::size_t group = i / format.group_elements;
      const float product =
          scales[group] * static_cast<float>(static_cast<int>(codes[i]) - static_cast<int>(format.zero));
      *out++ = format.has_minimum ? product - minimums[group] : product;
    }
  }
}

}  // namespace

const TypeFacts* find_type(std::uint32_t number) noexcept {
  const auto* found = std::ranges::find(types, number, &TypeFacts::number);
  return found == types.end() ? nullptr : found;
}

const TypeFacts& facts_of(TensorType type) noexcept {
  return *find_type(static_cast<std::uint32_t>(type));
}

std::string read_type_names() {
  std::string names;
  for (const TypeFacts& type : types) {
    if (!type.is_read) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

void read_codes(TensorType type, std::span<const std::byte> blocks, std::span<std::uint8_t> codes,
                std::span<float> scales, std::span<float> minimums) {
  const ReadBlock read = reader_of(type);
  const std::size_t block_bytes = facts_of(type).block_bytes;
  CodeReader reader(codes, scales, minimums);
  const std::uint8_t* const first = bytes_of(blocks);
  for (std::size_t at = 0; at < blocks.size(); at += block_bytes) (reader.*read)(first + at);
}

void read_elements(TensorType type, std::span<const std::byte> blocks, std::span<float> elements) {
  const std::uint8_t* bytes = bytes_of(blocks);
  switch (type) {
    case TensorType::f32:
      if (!elements.empty()) std::memcpy(elements.data(), bytes, elements.size_bytes());
      return;
    case TensorType::f64:
      for (float& element : elements) {
        element = static_cast<float>(load<double>(bytes));
        bytes += sizeof(double);
      }
      return;
    case TensorType::f16:
      for (float& element : elements) {
        element = half_values()[load<std::uint16_t>(bytes)];
        bytes += 2;
      }
      return;
    case TensorType::bf16:
      for (float& element : elements) {
        const std::uint32_t bits = std::uint32_t{load<std::uint16_t>(bytes)} << 16U;
        std::memcpy(&element, &bits, sizeof element);
        bytes += 2;
      }
      return;
    default:
      decode_elements(type, blocks, elements);
  }
}

}  // namespace gpux::importer::gguf
