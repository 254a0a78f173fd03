#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "project/project_file.h"
#include "store/store.h"

namespace gpux {

/// The model that a MODEL argument means.
struct LocatedModel {
  std::filesystem::path onnx_file;
  std::filesystem::path package_folder;  ///< with the package's files, where it came from the store
  std::string name;                      ///< gpux.yml's, the package's, the folder's, or the file's stem
  std::string version;                   ///< "1.0.0" where nothing says one
  std::optional<ProjectFile> project;    ///< empty: the ONNX file alone
  std::optional<StoredModel> stored;     ///< where it came from the store
  std::string pulled_from;               ///< where a model of a stranger came from; empty: it is the user's own
  std::string provider;                  ///< the request the package was built for; empty: none
  std::string note;                      ///< the implicit choice, for messages; may be empty
  /// The models of an ensemble, in order; then `onnx_file` is its gpux.yml. Empty: it is one model.
  std::vector<LocatedModel> steps;
};

/// Error usage where it is an ensemble. `command`: "gpux embed", or what else takes one model alone.
void require_one_model(const LocatedModel& located, std::string_view command);

/// Whether the model has a text tower and an image tower. Pure.
[[nodiscard]] inline bool has_image_tower(const LocatedModel& located) {
  return located.project && !located.project->image_tower.empty();
}

/// Finds what `argument` means. A path that exists, with or without "./", is that path:
/// - an ONNX file is only that file, even if there is a gpux.yml next to it;
/// - a .yml or .yaml file is a gpux.yml;
/// - a folder is its gpux.yml, or without one what checkpoint::read_image_project() makes of its settings, its only
/// .onnx
///   file, or onnx/model.onnx.
/// Anything else is a name in the store, NAME[:TAG], and only ever that model; or an id, as find_stored() has it.
/// `config` names the gpux.yml to use instead: a path, or for a folder one inside it.
/// Errors: network, where trust.yml asks for a signature that was not seen; not_found, which says what is there
/// instead; usage for an address, for what can be neither a file nor a name, and for an id of several; invalid_config;
/// storage.
LocatedModel locate(std::string_view argument, const Store& store,
                    const std::optional<std::filesystem::path>& config = std::nullopt);

/// The folder's gpux.yml; empty where it has none. Error invalid_config where the folder holds a file whose name was
/// meant to be that (gpux.yaml, GPUX.yml), instead of it or beside it.
std::optional<std::filesystem::path> project_file_in(const std::filesystem::path& folder);

/// Finds a stored model by its name, or else by its id as 'gpux images' prints it: the first 4 to 64 digits of its
/// digest, with or without "sha256:". A name always means the model of that name. Errors not_found that names the
/// nearest and what is there; usage where an id means several models.
StoredModel find_stored(const Reference& name, const Store& store);

}  // namespace gpux
