#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace gpux::embedding {

/// Whether "@PATH" means images: a folder, or a file that is one by its name (.jpg, .jpeg, .png, .webp) or its first
/// bytes. Anything else is texts, or not there.
[[nodiscard]] bool is_image_argument(const std::string& argument);

/// Files with images, in order.
struct ImagePaths {
  std::vector<std::string> files;
  std::size_t skipped = 0;  ///< other files in the folders
};

/// The images of paths: an image file is itself; a folder has those directly in it, in the order of their names; any
/// other file is a list, one path per line, empty lines left out. Errors not_found (a path, a folder or list without
/// images), storage; invalid_input for a list that is too long or not UTF-8.
[[nodiscard]] ImagePaths images_in(std::span<const std::string> paths);

}  // namespace gpux::embedding
