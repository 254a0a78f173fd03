#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpux {

/// Writes all of `content` from that byte of the file on. The number of the error; 0: none.
[[nodiscard]] int write_fully(int descriptor, std::span<const std::byte> content, std::uint64_t position) noexcept;

}  // namespace gpux
