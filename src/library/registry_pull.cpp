#include "library/registry_pull.h"

#include <optional>
#include <utility>

#include "registry/oci/credential_store.h"
#include "registry/oci/session.h"

namespace gpux {

oci::PulledPackage pull_from_registry(const RegistryPull& request, Store& store,
                                      const oci::TransferListener& listener) {
  oci::PullOptions options;
  options.names = request.names;
  options.connections = request.connections;
  std::optional<oci::VerifyingKey> key;
  if (!request.verify_key.empty()) {
    key = oci::VerifyingKey::read(request.verify_key);
    options.verify_key = &*key;
  }
  registry::ClientOptions client_options = oci::client_options(request.access, listener.on_note);
  client_options.cancellation = request.cancellation;
  registry::Client client(std::move(client_options));
  oci::Session session(client, request.reference.registry, oci::CredentialStore(), {request.access.insecure_hosts, {}});
  return oci::pull_package(session, request.reference, store, options, listener);
}

}  // namespace gpux
