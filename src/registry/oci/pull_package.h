#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "registry/oci/remote_reference.h"
#include "registry/oci/repository.h"
#include "registry/oci/signature.h"
#include "store/store.h"

namespace gpux::oci {

/// How far a transfer is. Functions may be null; they are called from several threads, one at a time.
struct TransferListener {
  /// Bytes that are done and those of all contents.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;
  /// Called with one line for the user.
  std::function<void(const std::string&)> on_note;
};

struct PullOptions {
  std::vector<Reference> names;               ///< in the store; empty: RemoteReference::stored_name()
  std::span<const VerifyingKey> verify_keys;  ///< one of them must have signed; empty: signatures are not looked at
  Message keys_from;                          ///< who asks for that, for messages: the setting verify_key
  /// The public keys as they are recorded, one for each of verify_keys.
  std::vector<std::string> key_names;
  StoredModel former;        ///< what has the name now; without a digest: nothing
  unsigned connections = 4;  ///< blobs that are received at a time
};

struct PulledPackage {
  StoredModel stored;
  bool was_complete = false;         ///< all its contents were in the store before
  std::uint64_t received_bytes = 0;  ///< by this call
  std::uint64_t reused_bytes = 0;    ///< that were here, if it was not complete
};

/// Brings a package from a registry into the store: an OCI or Docker manifest, or an index with one model. It gets its
/// names when it is complete and every digest is right; until then its contents wait among the store's downloads, and
/// the next call continues there, whatever ended this one. Errors: not_found (no such reference), network (also for a
/// checksum or a signature), permission, invalid_model (no package that gpux can use), storage (also if the disk has
/// not enough space, before anything is received), interrupted.
PulledPackage pull_package(Session& session, const RemoteReference& reference, Store& store, const PullOptions& options,
                           const TransferListener& listener = {});

/// Which of the keys has a signature of the manifest in the repository; empty: none. Errors network, permission.
std::optional<std::size_t> signer_of(Repository& repository, const std::string& digest,
                                     std::span<const VerifyingKey> keys);

}  // namespace gpux::oci
