#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace gpux::embedding {

/// The kind of embedding made of a text.
enum class Representation : std::uint8_t {
  dense,         ///< one vector
  sparse,        ///< weights of some entries of the vocabulary (SPLADE)
  multi_vector,  ///< one vector per token, for late interaction (ColBERT)
};

inline constexpr std::array<std::pair<Representation, std::string_view>, 3> representation_names{{
    {Representation::dense, "dense"},
    {Representation::sparse, "sparse"},
    {Representation::multi_vector, "multi-vector"},
}};

std::string_view name_of(Representation representation) noexcept;

/// The side of a search that a text is on. Late-interaction models treat the two differently; others do not.
enum class TextRole : std::uint8_t { document, query };

/// The role that texts with the prompt of that name have: "query", or else document. Pure.
TextRole role_of_prompt(std::string_view prompt_name) noexcept;

/// Weights of some entries of the vocabulary, none of them 0.
struct SparseWeights {
  std::vector<float> values = {};
  std::vector<std::uint32_t> indices = {};  ///< in rising order

  bool operator==(const SparseWeights&) const = default;
};

/// A text's representation.
struct Embedding {
  /// dense: the vector. sparse: the weights, none of them 0. multi_vector: [rows, width] in row-major order.
  std::vector<float> values;
  std::vector<std::uint32_t> indices;  ///< sparse: the entries of the vocabulary, in rising order
  std::size_t rows = 1;                ///< multi_vector: tokens; may be 0 where all of a document's are skipped
  SparseWeights sparse = {};           ///< dense, with EmbedOptions::with_sparse: the text's sparse vector

  bool operator==(const Embedding&) const = default;
};

}  // namespace gpux::embedding
