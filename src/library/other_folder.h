#pragma once

#include <filesystem>

#include "gpux/error.h"

namespace gpux {

/// The error about `folder` and its files as if they were `other`, which is the one that the user knows; also where the
/// words of another program, as ONNX Runtime, have the folder's path. Pure.
Error in_other_folder(const Error& error, const std::filesystem::path& folder, const std::filesystem::path& other);

/// The error about what was made of `source` in the temporary folder `made`: about the file of the same name in
/// `source`, or else about `source`, which is a file or a folder that the user gave.
Error in_source_of(const Error& error, const std::filesystem::path& made, const std::filesystem::path& source);

/// To be called while `error` is handled: throws it, or `known`, where that says it otherwise.
[[noreturn]] void rethrow_as(const Error& error, const Error& known);

}  // namespace gpux
