#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gpux::importer {

/// [columns, rows] of a matrix [rows, columns].
template <typename T>
std::vector<T> transposed(std::span<const T> matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<T> result(matrix.size());
  // Blocks, because both matrices are larger than the cache.
  constexpr std::int64_t block = 32;
  for (std::int64_t first = 0; first < rows; first += block) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = first; i < std::min(rows, first + block); ++i) {
        result[static_cast<std::size_t>(j * rows + i)] = matrix[static_cast<std::size_t>(i * columns + j)];
      }
    }
  }
  return result;
}

template <typename T>
std::vector<T> transposed(const std::vector<T>& matrix, std::int64_t rows, std::int64_t columns) {
  return transposed(std::span<const T>(matrix), rows, columns);
}

}  // namespace gpux::importer
