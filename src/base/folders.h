#pragma once

#include <filesystem>
#include <vector>

namespace gpux {

/// The folders in a folder, sorted by name. What cannot be read is left out.
[[nodiscard]] std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);

}  // namespace gpux
