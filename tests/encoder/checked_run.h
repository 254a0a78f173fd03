#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpux_cpu::encoder {

/// Bytes as one run of a small encoder: its precision, kernels, pooling and mask, the number of threads, the wanted
/// results, and a batch of 0 to 16 texts of 0 to 25 tokens, of which some are not valid. The bytes in order:
///
///   0 precision; 1 kernels; 2 encoder; 3 threads; 4 results, inputs and threading, a bit each; 5 texts; 6 length;
///   then for each text one that tells its mask, and one for each of its tokens. What is missing is 0.
///
/// Every encoder accepts the bytes in each place: they count modulo what there is.
/// Compares with the plain encoder; what is wrong, or an empty string.
std::string checked_run(std::span<const std::uint8_t> bytes);

/// How checked_run reads the fifth byte.
enum : std::uint8_t { wants_vectors = 1, wants_hidden = 2, has_mask = 4, has_types = 8, has_real_threads = 16 };

/// How it reads a text's byte, modulo 8; the rest is the number of tokens that count, or the seed of `some`.
enum : std::uint8_t { all_count, none_counts, front_counts, back_counts, some_count, odd_count, only_last, not_a_mask };

}  // namespace gpux_cpu::encoder
