#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/store_changes/store_jobs.h"
#include "server/store_changes/uploads.h"
#include "store/store.h"

namespace gpux::server {

/// A model that a client wants to have made: of one that is stored, or of files that it has sent.
struct ModelCreation {
  std::string name;                          ///< in the store
  std::string from;                          ///< the name of a stored model; empty: of the files
  std::map<std::string, std::string> files;  ///< SHA-256 of each by its name: a GGUF file, or a Hugging Face folder
  /// Of a stored model: what the new one's generation_config.json says in place of the old one's.
  std::vector<std::pair<std::string, double>> settings;
};

/// A generation_config.json with these settings in it. Error invalid_model where the text is no object, or nested too
/// deeply. Pure.
std::string changed_settings(const std::string& text, const std::vector<std::pair<std::string, double>>& settings);

/// The GGUF file among these that is the model, or the first of its parts; empty: they are a Hugging Face folder.
/// Error invalid_input for files that do not belong together. Pure.
std::string gguf_among(const std::map<std::string, std::string>& files);

/// Makes the model and stores it. What is made of sent files is a stranger's, as what was pulled is: it runs in a
/// worker process with a sandbox unless it generates text, which runs in the server's process (docs/sandbox.md). What
/// is made of a pulled model has the origin of that one, and trust.yml holds for both. Errors not_found (the stored
/// model, a file), invalid_input (a file's name), invalid_model (its settings), permission and network (trust.yml),
/// usage (a name), those of import_folder() without paths of this machine, of Cancellation::check() between its parts,
/// storage.
StoredModel create_model(const ModelCreation& creation, Store& store, Uploads& uploads, const std::stop_token& stop,
                         const StoreJobs::Tell& tell);

}  // namespace gpux::server
