#pragma once

#include <string>

#include "registry/oci/manifest.h"
#include "registry/oci/repository.h"
#include "registry/oci/signature.h"

namespace gpux::oci {

/// Puts a signature of the manifest into its repository, beside those that are there: under cosign's tag, and among the
/// referrers of the manifest. A key that has signed it already does so no second time. Errors network, permission.
void sign_package(Repository& repository, const Descriptor& subject, const SigningKey& key);

/// The index of the fallback tag "sha256-DIGEST" with another entry: registries without the referrers API list there
/// what refers to a manifest. `existing` is empty if there is none yet; `replaced` is a digest to leave out.
/// Error network if `existing` is damaged.
std::string with_referrer(const std::string& existing, const Descriptor& referrer, const std::string& replaced);

}  // namespace gpux::oci
