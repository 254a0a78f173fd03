#pragma once

#include <vector>

#include "base/cancellation.h"
#include "project/trust_policy.h"
#include "registry/oci/access.h"
#include "registry/oci/pull_package.h"
#include "registry/oci/remote_reference.h"
#include "store/store.h"

namespace gpux {

struct RegistryPull {
  oci::RemoteReference reference;
  std::vector<Reference> names;  ///< in the store; empty: RemoteReference::stored_name()
  oci::Access access;
  unsigned connections = 4;
  Cancellation cancellation;
  RequiredSignature signature;  ///< that it must have
  StoredModel former;           ///< what has the name now; without a digest: nothing
};

/// Brings a package from an OCI registry into the store, with the credentials of Docker's config.json. Errors as of
/// oci::pull_package(); invalid_input, not_found (the key), usage (the access).
oci::PulledPackage pull_from_registry(const RegistryPull& request, Store& store,
                                      const oci::TransferListener& listener = {});

}  // namespace gpux
