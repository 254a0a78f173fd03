#pragma once

#include <filesystem>
#include <string>

namespace gpux::registry {

/// Git's id of the file's content: 40 hexadecimal digits. The hub gives it for small files in place of a SHA-256.
/// Errors as MappedFile.
std::string git_blob_id_of_file(const std::filesystem::path& file);

}  // namespace gpux::registry
