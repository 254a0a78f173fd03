#pragma once

#include <filesystem>
#include <string>

#include "gpux/error.h"

namespace gpux {

/// The error about the files of `folder` as those of another one, which the user knows; `itself`: the folder's name
/// there. Pure.
Error in_other_folder(const Error& error, const std::filesystem::path& folder, const std::filesystem::path& other,
                      const std::string& itself);

}  // namespace gpux
