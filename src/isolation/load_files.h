#pragma once

#include <filesystem>
#include <vector>

#include "gpux/options.h"

namespace gpux::isolation {

/// All files that a load with these options may read: of the model, of the steps around it, and of what runs in its
/// place. Absolute paths, each once. A file that is no model stands for itself: the load reports it, if it is needed.
std::vector<std::filesystem::path> files_of_load(const std::filesystem::path& model, const LoadOptions& options);

}  // namespace gpux::isolation
