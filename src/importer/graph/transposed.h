#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpux::importer {

/// [columns, rows] of a matrix [rows, columns].
std::vector<float> transposed(std::span<const float> matrix, std::int64_t rows, std::int64_t columns);

}  // namespace gpux::importer
