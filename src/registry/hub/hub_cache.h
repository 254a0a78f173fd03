#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "registry/hub/model_info.h"

namespace gpux::registry {

/// Verifies the file at `path` against `file` by size and SHA-256 or git id. Returns the problem; empty: none. Reads
/// the whole file. Errors as MappedFile.
std::string problem_of(const HubFile& file, const std::filesystem::path& path);

/// Where a file of the repository is in the cache of huggingface_hub, if it is there with the right size, under the
/// name of its content or, where the file system has no links, in the folder of the commit; its content is not checked.
std::optional<std::filesystem::path> find_in_cache(const std::filesystem::path& cache, const HubModelInfo& info,
                                                   const HubFile& file);

/// Finds a repository in the cache at a revision (a branch, a tag or a commit; empty: main), with the files that are
/// there. Copies in place of links do not tell their digests: those files have none. Empty where it has nothing of it.
/// Error not_found where the cache does not tell whether the repository has a settings file (modules.json and what
/// belongs to it) without which the model would compute something else: huggingface_hub records a missing file in the
/// folder .no_exist, and .gitattributes is in complete downloads only.
std::optional<HubModelInfo> find_cached_model(const std::filesystem::path& cache, const std::string& repository,
                                              const std::string& revision);

}  // namespace gpux::registry
