#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/pooling.h"

namespace gpux::embedding {

/// Appends the pooled vector of `hidden`, [tokens, width] in row-major order, to `vector`. `mask` says for each token,
/// of which there is one at least, whether it counts (1) or not (0). Where none counts the means and last_token are
/// zeros, max is -infinity, and cls is the first token's.
void append_pooled(gpux::Pooling pooling, std::span<const float> hidden, std::span<const std::uint8_t> mask,
                   std::vector<float>& vector);

/// Divides by the Euclidean length, or by 1e-12 where that is more.
void normalize(std::span<float> vector) noexcept;

/// How a model's vectors are truncated and normalized after pooling, from the files in its folder.
struct VectorSettings {
  std::size_t truncate_dim = 0;  ///< their first so many; 0: all
  bool normalizes = false;       ///< to length 1
};

/// The elements of a vector of `whole` where no request says how many. Pure.
[[nodiscard]] std::size_t kept_dimensions(std::size_t whole, const VectorSettings& settings) noexcept;

/// Whether finish_vector() gives vectors of length 1, of `whole` elements before they are cut. Pure.
[[nodiscard]] bool has_unit_length(std::size_t whole, std::size_t dimensions, std::optional<bool> is_normalized,
                                   const VectorSettings& settings) noexcept;

/// Cuts and normalizes a vector: to `dimensions`, where that is not 0, else as the settings say. As in
/// sentence-transformers, truncate_dim cuts after the normalization. `is_normalized` says whether the result has length
/// 1; empty: where cut to `dimensions`, else as the model. Pure.
void finish_vector(std::vector<float>& vector, std::size_t dimensions, std::optional<bool> is_normalized,
                   const VectorSettings& settings);

}  // namespace gpux::embedding
