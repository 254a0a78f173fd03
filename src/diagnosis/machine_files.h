#pragma once

#include <filesystem>
#include <string>

namespace gpux::diagnosis {

/// Whether there is such a file or folder; false also where that cannot be seen.
[[nodiscard]] bool present(const std::filesystem::path& path);

/// Empty where it cannot be read. For files of /proc and /sys, which have no size.
[[nodiscard]] std::string first_line(const std::filesystem::path& path);

}  // namespace gpux::diagnosis
