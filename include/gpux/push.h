#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gpux/export.h"
#include "gpux/pull.h"
#include "gpux/store.h"

namespace gpux {

/// How push() uploads and signs.
struct PushOptions {
  std::filesystem::path sign_key;     ///< a private key (PEM, P-256, not encrypted) to sign with; empty: not signed
  std::uint64_t chunk_bytes = 0;      ///< larger files are uploaded in chunks of this size, 64 KiB or more; 0: 32 MiB
  std::filesystem::path ca_file;      ///< trusted instead of the system's authorities; empty: the environment's
  std::vector<std::string> insecure;  ///< HOST or HOST:PORT whose certificates are not checked, and plain HTTP there
  std::optional<std::vector<std::string>> only_public_and = {};  ///< as PullOptions::only_public_and
  std::filesystem::path home;                                    ///< the store; empty: GPUX_HOME, or ~/.gpux
};

/// Result of push(): the name and digest in the registry, and the bytes transferred.
struct PushedModel {
  std::string name;                                  ///< "registry.example/team/digits:1.0.0"
  std::string digest;                                ///< digest of the manifest: "sha256:" and 64 hexadecimal digits
  std::uint64_t existed = 0, mounted = 0, sent = 0;  ///< contents: in the repository before, in another one, uploaded
  std::uint64_t sent_bytes = 0;
  std::string signature_tag;  ///< empty: not signed
};

/// Uploads the stored model of the name REGISTRY/REPOSITORY[:TAG] to that place, with the credentials of Docker's
/// config.json, as `gpux push` does; ModelStore::tag() gives a model such a name. The listener gets bytes without the
/// names of files. Errors: not_found (no model has this name, no such repository), permission (no login, a wrong
/// password), network, storage (a stored file has changed), usage, invalid_input (the key), interrupted.
GPUX_API PushedModel push(const std::string& name, const PushOptions& options = {}, const PullListener& listener = {},
                          const std::stop_token& stop = {});

/// Writes stored models, NAME[:TAG] or ids, into a tar archive, as `gpux save` does: an OCI image layout. `home` is the
/// folder of the store; empty: GPUX_HOME, or ~/.gpux. Gives the packages. Errors not_found, storage, permission.
GPUX_API std::vector<StoredPackage> save_packages(const std::vector<std::string>& models,
                                                  const std::filesystem::path& file,
                                                  const std::filesystem::path& home = {});

/// Stores the models of such an archive, as `gpux load` does, under the names that it gives them, or under `names` if
/// it has one model. Each digest is checked, and nothing is stored unless all is right. Errors invalid_input (no such
/// archive, damaged, a model without a name), invalid_model (no package that gpux can use), not_found, permission,
/// storage, usage (a name).
GPUX_API std::vector<StoredPackage> load_packages(const std::filesystem::path& file,
                                                  const std::vector<std::string>& names = {},
                                                  const std::filesystem::path& home = {});

}  // namespace gpux
