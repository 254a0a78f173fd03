#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpux_example {

enum class CopyDirection : std::uint8_t { to_device, from_device, between_devices };

/// Numbers of copies and of their bytes since the library was loaded, all sessions and devices together: to the device,
/// from it, between devices; then the blocks of device memory that were allocated, and their bytes. Behind these, the
/// part of the copies to the device, and of those from it, whose host memory was pinned, and the blocks of pinned
/// memory that were allocated.
using CopyCounts = std::array<std::uint64_t, 14>;

/// Any thread may call these. `pinned`: the host's side is in memory of Allocator. Of copies between devices it is
/// ignored.
void count_copy(CopyDirection direction, std::size_t bytes, bool pinned) noexcept;
void count_allocation(std::size_t bytes, bool pinned) noexcept;
[[nodiscard]] CopyCounts copy_counts() noexcept;

/// Writes copy_counts() as a line of JSON to the file that the environment variable GPUX_EXAMPLE_COPIES names, if it
/// names one. What cannot be written is left out.
void write_copy_counts() noexcept;

}  // namespace gpux_example
