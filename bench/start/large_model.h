#pragma once

#include <cstdint>
#include <filesystem>

namespace gpux::bench {

/// Writes a model y = x · W with a square float32 W of about `weight_bytes`, less than 2 GB, without holding it in
/// memory. x is float32[1, side].
void write_large_model(const std::filesystem::path& file, std::uint64_t weight_bytes);

}  // namespace gpux::bench
