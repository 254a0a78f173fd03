#pragma once

#include <filesystem>

#include "gpux/error.h"

namespace gpux {

/// The error about `folder` and its files as if they were `other`, which is the one that the user knows; also where the
/// words of another program, as ONNX Runtime, have the folder's path. Pure.
Error in_other_folder(const Error& error, const std::filesystem::path& folder, const std::filesystem::path& other);

}  // namespace gpux
