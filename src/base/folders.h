#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace gpux {

/// The folders in a folder, sorted by name. What cannot be read is left out.
[[nodiscard]] std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);

/// Bytes of all regular files below the folder, without links. What cannot be read does not count.
[[nodiscard]] std::uint64_t bytes_below(const std::filesystem::path& folder);

}  // namespace gpux
