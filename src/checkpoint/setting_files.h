#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/module_list.h"

namespace gpux::checkpoint {

inline constexpr const char* modules_file = "modules.json";

/// The files of settings and of the tokenizer that a folder may have, relative to it or to its transformer's folder.
[[nodiscard]] std::span<const char* const> setting_files() noexcept;

/// The modules of modules.json; none where the folder has no such file.
[[nodiscard]] std::vector<Module> modules_in(const std::filesystem::path& folder);

/// Files in the folder that are read again when the model runs: the settings of the modules behind the transformer, and
/// the weights of dense layers; relative to the folder.
[[nodiscard]] std::vector<std::string> module_files_in(const std::filesystem::path& folder,
                                                       const std::vector<Module>& modules);

/// Checks that there is a tokenizer. Error not_found if neither folder has a tokenizer.json.
void require_tokenizer(const std::filesystem::path& folder, const std::filesystem::path& transformer_folder);

/// Files of settings and of the tokenizer that the folder has, relative to it: what has to come along with its ONNX
/// file.
[[nodiscard]] std::vector<std::string> setting_files_in(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint
