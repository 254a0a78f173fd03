#pragma once

#include <filesystem>
#include <string>

namespace gpux::provider {

/// The library's path, size and date: what stands for its version. The path alone where there is no such file.
std::string library_version(const std::filesystem::path& library);

/// Tells the content of a library from any other: its name and its build ID where the linker gave it one, else
/// library_version().
std::string library_content(const std::filesystem::path& library);

}  // namespace gpux::provider
