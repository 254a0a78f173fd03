#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpux {

/// Reads "512", "2GB", "1.5 GiB", "64k": decimal units (kB, MB, GB, TB) count in thousands, binary ones (KiB, MiB, …)
/// in 1024, in any case of letters. Empty where the text is not a size or does not fit 64 bits.
std::optional<std::uint64_t> parse_memory_size(std::string_view text) noexcept;

/// "1.9 GB", "512 B": human-readable, decimal units.
std::string format_bytes(std::uint64_t bytes);

}  // namespace gpux
