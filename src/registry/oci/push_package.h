#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/oci/pull_package.h"
#include "registry/oci/remote_reference.h"
#include "registry/oci/repository.h"
#include "registry/oci/signature.h"
#include "store/store.h"

namespace gpux::oci {

struct PushOptions {
  const SigningKey* signing_key = nullptr;  ///< null: not signed
  Repository::Options repository = {};
  unsigned connections = 4;  ///< blobs that are sent at a time
};

struct PushedPackage {
  std::string digest;                                ///< digest of the manifest, 64 hexadecimal digits
  std::uint64_t existed = 0, mounted = 0, sent = 0;  ///< contents
  std::uint64_t sent_bytes = 0;
  std::string signature_tag;  ///< empty: not signed
};

/// The contents of a stored model under one of its names.
struct NamedContents {
  Reference name;
  std::vector<std::string> digests;
};

/// A repository of the same registry in which another name of the store says that the content is, so that the registry
/// can take it from there; empty if there is none. Pure.
std::string mount_source(const std::string& digest, const RemoteReference& target,
                         const std::vector<NamedContents>& models);

/// Uploads the contents that the registry lacks, then the manifest under the tag of `target`, then a signature if a key
/// is given. Errors: storage (a stored file has changed), network, permission, not_found; usage (`target` has a
/// digest).
PushedPackage push_package(Session& session, const StoredModel& model, const RemoteReference& target,
                           const Store& store, const PushOptions& options, const TransferListener& listener = {});

}  // namespace gpux::oci
