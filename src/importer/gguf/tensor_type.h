#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpux::importer::gguf {

/// How the elements of a tensor are stored: ggml's types that gpux reads, with ggml's numbers.
enum class TensorType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  f64 = 28,
  bf16 = 30,
  mxfp4 = 39,
};

/// The blocks of a type as groups of codes: element = scale * (code - zero) - minimum, with the group's scale and
/// minimum. Every type with blocks is of this form, so that nothing is lost.
struct CodeFormat {
  std::size_t group_elements = 0;  ///< 16 or 32; 0: the type has no codes
  std::uint32_t bits = 0;          ///< bits of a stored code, 4 or 8: the smaller one that the type's codes fit in
  std::uint8_t zero = 0;
  bool has_minimum = false;
};

/// A type of ggml. A row of a tensor is a whole number of blocks.
struct TypeFacts {
  std::uint32_t number = 0;
  std::string_view name{};         ///< ggml's: "Q4_K"
  std::size_t block_elements = 1;  ///< 1: each element by itself
  std::size_t block_bytes = 0;
  bool is_read = false;  ///< in TensorType
  CodeFormat codes{};
};

/// Facts of the type with this number of ggml; null if there is none.
[[nodiscard]] const TypeFacts* find_type(std::uint32_t number) noexcept;
[[nodiscard]] const TypeFacts& facts_of(TensorType type) noexcept;

/// "F32, F16, Q4_0, …": the types that are read.
[[nodiscard]] std::string read_type_names();

/// The codes of whole blocks of a type that has them. `codes` has an element for each of the tensor's, `scales` and
/// `minimums` one for each group; types without minimums leave the latter alone.
void read_codes(TensorType type, std::span<const std::byte> blocks, std::span<std::uint8_t> codes,
                std::span<float> scales, std::span<float> minimums);

/// The elements of whole blocks: bit-identical to those of ggml's reference code.
void read_elements(TensorType type, std::span<const std::byte> blocks, std::span<float> elements);

}  // namespace gpux::importer::gguf
