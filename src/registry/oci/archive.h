#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "store/store.h"

namespace gpux::oci {

/// Writes stored models into a tar archive of an OCI image layout, as `skopeo copy oci-archive:FILE` reads it. The file
/// is replaced as a whole or not at all. The same models give the same bytes. Errors storage (also if a stored file has
/// changed), permission.
void save_archive(const Store& store, std::span<const StoredModel> models, const std::filesystem::path& file);

/// Stores the models of such an archive under the names that it gives them, or `names` if it has one model. Each digest
/// is checked, and nothing is stored unless all is right. Errors invalid_input (no such archive, damaged, a model
/// without a name), invalid_model (no package that gpux can use), not_found, permission, storage.
std::vector<StoredModel> load_archive(Store& store, const std::filesystem::path& file,
                                      std::span<const Reference> names);

}  // namespace gpux::oci
